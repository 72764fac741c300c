"""Networks from measurements: outputs of nccl-tests, OSU, nvbandwidth and perftest read, and a cluster's links fitted to them."""
