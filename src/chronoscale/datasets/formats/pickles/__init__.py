"""Pickles of arrays and tensors, read without running anything that they name."""
