"""Rivals of models: predictions that train no network, which a model has to beat."""
