"""What an engineer may choose from, simulated side by side and put in order."""
