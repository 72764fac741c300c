"""Planning for sequences of snapshots: how groups become rows."""
