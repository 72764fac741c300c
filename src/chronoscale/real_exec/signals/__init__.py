"""Training on signals: readings over time at the nodes of a static graph."""
