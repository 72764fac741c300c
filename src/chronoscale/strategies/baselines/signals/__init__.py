"""Baselines on signals."""
