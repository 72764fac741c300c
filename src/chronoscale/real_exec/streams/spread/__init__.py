"""Programs whose node memory is spread over ranks: in parts, or as copies that differ."""
