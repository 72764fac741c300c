"""What communication takes: links and switches, the way of each byte, NCCL's model of collectives."""
