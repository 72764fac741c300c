"""Formats of files: how each is recognised and read."""
