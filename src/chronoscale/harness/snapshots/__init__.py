"""Experiments on snapshots."""
