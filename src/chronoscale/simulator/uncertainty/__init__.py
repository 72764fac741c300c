"""What a simulation takes for granted, and how far its answers move with it."""
