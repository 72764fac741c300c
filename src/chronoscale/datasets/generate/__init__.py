"""Evolving graphs made from a seed: as iterators of snapshots, so that 10,000 of them need the memory of one."""
