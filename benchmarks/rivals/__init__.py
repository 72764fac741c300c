"""Rivals of the trainer of event streams, under one protocol: protocol.py. None of them imports the trainer."""
