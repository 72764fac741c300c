"""Rivals of models that predict links: scores of pairs of nodes from the events so far."""
