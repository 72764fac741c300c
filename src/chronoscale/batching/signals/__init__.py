"""Batches of sliding windows over a signal, their standardisation, and naive predictions."""
