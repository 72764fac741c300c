"""Partitions of an event stream: policies, quality, and what is remote under them."""
