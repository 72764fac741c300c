"""Baselines: the systems that the five papers compare with."""
