"""Streams whose node memory is spread over ranks."""
