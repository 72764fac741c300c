"""Event streams on several ranks: who has which events and rows, and what ranks read of each other."""
