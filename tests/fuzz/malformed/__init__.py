"""Calls of the kernels with arguments that do not fit: for fuzz.calls."""
