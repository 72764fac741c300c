"""Caches of feature rows: how rows come to a device, and which of them stay there."""
