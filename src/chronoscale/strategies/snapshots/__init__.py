"""How work on snapshots becomes rows."""
