"""Values with a text for people and a value for programs."""
