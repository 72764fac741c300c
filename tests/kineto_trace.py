"""Traces as torch.profiler exports them, event by event."""

import json
from pathlib import Path


def event(cat: str, name: str, ts: float, dur: float, pid: object = 1, tid: object = 1, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}


def launch(ts: float, correlation: int, tid: int = 1) -> dict[str, object]:
    """The call on the host that puts a kernel on a stream."""
    return event("cuda_runtime", "cudaLaunchKernel", ts, 2, tid=tid, correlation=correlation)


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7) -> dict[str, object]:
    return event("kernel", name, ts, dur, 0, stream, correlation=correlation, stream=stream, device=0)


def copy(way: str, ts: float, dur: float, size: int, correlation: int = 0) -> dict[str, object]:
    return event("gpu_memcpy", f"Memcpy {way}", ts, dur, 0, 7, correlation=correlation, bytes=size)


def save(path: Path, *events: object, rank: int = 0, ranks: int = 1, gpu: str = "") -> Path:
    about = {"deviceProperties": [{"id": 0, "name": gpu}] if gpu else 0, "distributedInfo": {"rank": rank, "world_size": ranks}}
    path.write_text(json.dumps({"schemaVersion": 1, **about, "traceEvents": events}))
    return path
