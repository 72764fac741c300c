"""What differs between the kinds of dynamic graph: how data are stored, planned with, probed and trained on."""
