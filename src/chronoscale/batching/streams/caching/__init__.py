"""Rows of features: how they come to a device, and which of them stay there."""
