"""MemShare's tables and figures."""
