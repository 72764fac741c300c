"""Formats that schedules and traces are exchanged in with other tools."""
