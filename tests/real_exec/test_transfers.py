"""What goes to a device."""

from __future__ import annotations

import pytest
import torch

from chronoscale.real_exec.execution.transfers import to_device


def test_memory_that_goes_to_a_gpu_is_pinned_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the host would wait for the copy; a CPU rank reads what is there."""
    calls: list[tuple[str, object]] = []

    def pinned(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(("pin", tensor))
        return tensor + 1

    def to(tensor: torch.Tensor, device: torch.device, non_blocking: bool) -> torch.Tensor:
        calls.append((device.type, non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.Tensor, "to", to)
    rows = torch.zeros(2)
    assert to_device(rows, torch.device("cuda")).tolist() == [1, 1]
    assert [call[0] for call in calls] == ["pin", "cuda"] and calls[1][1] is True
    assert to_device(rows, torch.device("cpu")) is rows and calls[2:] == [("cpu", True)]
