"""Epochs whose node memory is spread over ranks: what ranks share, and the rows that follow (MemShare, DistTGL, MSPipe)."""
