"""Times in unix seconds: models read differences alone, so that a stream that begins 1.7e9 s later trains to the same bits.

float32 has a number for every 128 s there: a time that passes through one turns these streams' differences into noise or zeros.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from spread_ranks import sharing, spread_program
from stream_case import MODELS, choice, hyper, planned, prepared, program, stream
from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.streams.spread.shared_history import SharedHistory
from chronoscale.real_exec.streams.state import NodeState
from chronoscale.strategies.streams.models import stream_shape

LATER = 1_700_000_000


def trained(folder: Path, model: str, name: str, begun: int) -> tuple[list[float], list[Tensor], dict[str, Tensor]]:
    """Losses, parameters and node state after two epochs of a stream that begins then."""
    folder.mkdir()
    events = stream()
    prepared(folder, replace(events, t=events.t + begun))
    spread = name != "tgl-unique"
    chosen, arguments = choice(model), hyper(model, **({"events": sharing()} if spread else {}))
    schedule = planned(folder / "prepared", chosen, arguments, name)
    built = (spread_program if spread else program)(folder / "prepared", schedule, chosen, arguments, Context())
    losses = [loss for _ in range(2) for loss in execute(schedule, built, CpuLanes(False), "cpu").losses]
    state = built.memory_part.state if spread else built.state
    return losses, [parameter.detach() for parameter in built.learner.model.parameters()], state.tables()


CASES = [(model, "tgl-unique") for model in MODELS] + [("tgn", "memshare"), ("apan", "memshare")]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_a_later_stream_trains_to_the_same_bits(tmp_path: Path, model: str, name: str) -> None:
    losses, parameters, tables = trained(tmp_path / "early", model, name, 0)
    others, shifted, moved = trained(tmp_path / "late", model, name, LATER)
    assert losses == others and np.isfinite(losses).all()
    assert all(torch.equal(each, other) for each, other in zip(parameters, shifted, strict=True))
    for table in ("updated", "mailed"):
        assert torch.equal(tables[table] + LATER, moved[table])


def test_mails_a_second_apart_are() -> None:
    state = NodeState(3, stream_shape(choice("apan"), 0, 0, 0, 1), float(LATER))
    for second in (1, 2, 5):
        state.post(
            torch.tensor([1]),
            torch.zeros(1, state.mail.shape[2]),
            torch.tensor([LATER + second], dtype=torch.float64),
            torch.tensor([True]),
        )
    pending, received = state.read(torch.tensor([0, 1]))
    assert pending.elapsed.tolist() == [[0.0, 0.0, 0.0], [1.0, 2.0, 5.0]]
    assert received.tolist() == [LATER, LATER + 5]


def test_what_is_expected_follows_the_seconds() -> None:
    """Memory 0, 1, 2 at seconds 0, 10, 20: 2.5 is expected five seconds later."""
    history = SharedHistory(1, 1, float(LATER))
    node = torch.tensor([0])
    for at in (0, 10, 20):
        history.observe(node, torch.tensor([[at / 10]]), torch.tensor([LATER + at], dtype=torch.float64))
    assert history.expected(node, torch.tensor([LATER + 25], dtype=torch.float64)).tolist() == [[2.5]]
