"""Sampling of temporal neighbours on NumPy arrays, its threads, and models of the caches that they share."""
