"""A rank that meets the others, adds up one number with them, and leaves: for the subject `start`."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from chronoscale.real_exec.ranks.rank import leave, serve


def main(path: str) -> int:
    """Entry point of a rank."""
    return serve("cpu", lambda: dist.all_reduce(torch.ones(1)))


if __name__ == "__main__":
    leave(main(sys.argv[1]))
