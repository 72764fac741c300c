"""Datasets as users name them: opened, described, partitioned."""
