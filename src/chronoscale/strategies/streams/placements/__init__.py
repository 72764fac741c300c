"""Which rows of features a device holds."""
