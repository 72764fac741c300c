"""Sampling of temporal neighbours on NumPy arrays, the threads that do it, and models of the processor caches that they share."""
