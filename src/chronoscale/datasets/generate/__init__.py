"""Generators of datasets from a seed, in blocks or one snapshot at a time, so that 10,000 of them need the memory of one."""
