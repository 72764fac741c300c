"""Kinds of forecasters, as planners count them."""
