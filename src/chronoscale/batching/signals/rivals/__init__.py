"""Rivals of forecasters of signals: predictions that train no network."""
