"""MemShare: node memory in parts, with hot nodes shared by all ranks (papers/memshare)."""
