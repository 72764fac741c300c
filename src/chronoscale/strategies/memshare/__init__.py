"""MemShare."""
