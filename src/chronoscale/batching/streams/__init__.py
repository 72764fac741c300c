"""What makes batches out of an event stream, on one rank or several."""
