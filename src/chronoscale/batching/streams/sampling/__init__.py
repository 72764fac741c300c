"""Sampled neighbourhoods of batches: what samples them, on which threads, and how much of them repeats."""
