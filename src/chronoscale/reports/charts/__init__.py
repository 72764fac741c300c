"""Charts in one style, a kind a file, and the drawings that they make."""
