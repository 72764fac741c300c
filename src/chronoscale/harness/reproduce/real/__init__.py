"""REAL's figures and tables."""
