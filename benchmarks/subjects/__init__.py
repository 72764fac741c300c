"""Subjects: a file for each claim that is measured. `python benchmarks list` prints their first lines."""
