"""Finished runs as reports, tables, and files for other tools."""
