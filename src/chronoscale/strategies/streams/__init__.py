"""How work on event streams becomes rows."""
