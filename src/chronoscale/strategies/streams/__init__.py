"""Planning for event streams: how batches of events become rows."""
