"""PGT-I's tables and figures, run again."""
