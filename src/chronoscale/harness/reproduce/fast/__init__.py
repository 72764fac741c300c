"""FAST's tables and figures."""
