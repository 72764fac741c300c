"""What is not known of the time that rows take, and what that does to an epoch."""
