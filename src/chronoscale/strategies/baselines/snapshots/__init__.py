"""Baselines on snapshots."""
