"""How a stream is cut for several ranks."""
