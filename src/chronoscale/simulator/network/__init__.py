"""The network of a cluster: its links and switches, what collectives take on them, and which rows cross which link."""
