"""What rows take of resources that other rows want at the same time."""
