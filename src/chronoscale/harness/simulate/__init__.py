"""Strategies simulated on clusters: planned, replayed, also with failures and for epochs that memory does not hold."""
