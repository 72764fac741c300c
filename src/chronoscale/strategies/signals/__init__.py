"""How work on signals becomes rows."""
