"""Launch summary: how the rows of a pass were launched on a GPU; records of passes and epochs have one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchSummary:
    """Summary of how a rank's pass was launched on a GPU, where CUDA graphs were requested.

    graphs: how many were replayed; captured: how many of these were captured in this very pass; why: the reason, in words, where nothing
    was.
    """

    graphs: int = 0
    captured: int = 0
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"launched row by row, not as CUDA graphs: {self.why}"
        return f"launched as {self.graphs} CUDA graph{'s' * (self.graphs != 1)}, {self.captured} of them captured first"
