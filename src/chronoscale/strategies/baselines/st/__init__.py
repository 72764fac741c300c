"""Baselines on signals (ST)."""
