"""What torch held at most in an epoch, beside the plan's peak."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch.profiler import ProfilerActivity, profile


def bytes_held(epoch: Callable[[], object]) -> int:
    """Return the most bytes that torch's profiler saw at once, beyond what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        epoch()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(path := str(Path(folder) / "trace.json"))
        events = [event for event in json.loads(Path(path).read_text())["traceEvents"] if event.get("name") == "[memory]"]
    return int(np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]).max())
