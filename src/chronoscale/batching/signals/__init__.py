"""Sliding windows over a signal: which train, how they are standardised, and what naive predictions come to."""
