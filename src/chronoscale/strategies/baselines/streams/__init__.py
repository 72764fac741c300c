"""Baselines on streams of events."""
