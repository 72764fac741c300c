"""Models of event streams, a file each: what the model is made of, how large it is and what work it does."""
