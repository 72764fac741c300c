"""Execution traces in the format of MLCommons Chakra: read and written, ours and those of other tools."""
