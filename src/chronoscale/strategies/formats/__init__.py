"""Formats in which schedules and traces are exchanged with other tools."""
