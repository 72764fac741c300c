"""PGT-I: index-batching (papers/pgt-i)."""
