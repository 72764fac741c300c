"""Neighbourhoods of a batch: what samples them, on which threads, and how much of them repeats."""
