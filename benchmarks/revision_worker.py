"""A worker of bench_revision.py, on whatever tree PYTHONPATH names: reads [script, graph, width, threads], answers with seconds a call by
the call's name."""

import importlib
import json
import os
import sys

import torch
from bench_aggregate import measure

from chronoscale.cuda_ext.native.backend import set_threads

RIVALS = ("dgl", "torch.sparse", "index_add_", "segment_reduce", "PyG", "pyg-lib")  # the same in both trees


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        script, graph, width, threads = json.loads(line)
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        set_threads(threads)
        calls = importlib.import_module(script).contestants(graph, width)
        times = measure({who: call for who, call in calls.items() if not who.startswith(RIVALS)}, 1)
        print(json.dumps({who: seconds[0] for who, seconds in times.items()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
