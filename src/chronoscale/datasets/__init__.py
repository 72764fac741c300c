"""Floor 1: dynamic graphs. Containers, formats, conversions, generators, the catalogue."""
