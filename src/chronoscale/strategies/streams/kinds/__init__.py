"""Kinds of models of event streams: a file each, which says what the model is made of, how large it is and what it does."""
