"""Figures, one kind a file, in one style."""
