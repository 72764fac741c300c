"""Planning for signals: how batches of windows become rows."""
