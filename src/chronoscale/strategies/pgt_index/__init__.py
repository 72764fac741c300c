"""PGT-I: index-batching (Ockerman et al., SC 2025)."""
