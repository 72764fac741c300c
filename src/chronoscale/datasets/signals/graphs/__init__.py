"""Graphs of sensors: built from coordinates, distances, readings, a grid or a file."""
