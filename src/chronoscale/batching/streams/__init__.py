"""Batches of an event stream, on one rank or several: sampling, caching, partitioning, negatives, and counts of their work."""
