"""A pretended GPU: memory of this machine that says it is on `cuda:0`, streams that keep order, and a record of what a real one would mind.

The package's own path for CUDA (`DeviceLanes`, pinned memory, kernels through the C ABI) runs on it; docs/testing.md.
"""

from pretended.findings import Findings, Kind
from pretended.machine import CUDA, pretended

__all__ = ["CUDA", "Findings", "Kind", "pretended"]
