"""REAL: reuse-aware load-balancing scheduling (papers/real)."""
