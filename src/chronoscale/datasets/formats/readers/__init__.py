"""Readers of the formats that the field already has, one a file. Each raises UserError naming file and line."""
