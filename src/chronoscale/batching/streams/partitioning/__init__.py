"""Partitions of an event stream: partitioners, quality, and what is remote under them."""
