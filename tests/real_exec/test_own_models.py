"""Models of event streams in users' files: they train as ours of the same equations do, and what is wrong with one is one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from own_models import MEAN, PROJECTED, TGAT, TGN, written
from stream_case import choice, hyper, one_pass, planned, prepared, stream

from chronoscale.errors import UserError
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.ranks.bundle import Bundle
from chronoscale.real_exec.streams.models.model import stream_model
from chronoscale.strategies.streams.models import stream_kind, stream_shape
from chronoscale.strategies.workload import ModelChoice


def untrained(name: str) -> torch.nn.Module:
    return stream_model(stream_shape(choice(name), 0, 2, 0, 1), 0)


@pytest.mark.parametrize(("ours", "text", "layers", "features"), [("tgat", TGAT, 2, 3), ("tgn", TGN, 1, 0), ("tgn", TGN, 2, 3)])
def test_a_model_of_a_file_trains_as_ours_of_its_equations(tmp_path: Path, ours: str, text: str, layers: int, features: int) -> None:
    """Equal parameters to begin with, since both draw them in one order; losses, parameters, scores, and memory after an epoch."""
    folder, own = prepared(tmp_path, stream(features=features)), written(tmp_path, ours.upper(), text)
    (built, expected), (made, result) = (one_pass(folder, name, layers=layers, clock="linear") for name in (ours, own))
    np.testing.assert_allclose(result.losses, expected.losses, rtol=0, atol=1e-5)
    assert result.scores == pytest.approx(expected.scores, abs=1e-5)
    mine, theirs = ([value.detach() for value in one.learner.model.parameters()] for one in (made, built))
    assert made.material.shape.parameters == sum(value.numel() for value in mine) == built.material.shape.parameters
    norms = (sorted(float(value.norm()) for value in values) for values in (mine, theirs))
    np.testing.assert_allclose(next(norms), next(norms), rtol=0, atol=1e-5)
    torch.testing.assert_close(made.state.memory, built.state.memory, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "text", "parts"), [("Projected", PROJECTED, (0, 6)), ("Mean", MEAN, (1, 0))])
def test_a_class_has_the_parts_whose_methods_it_defines(tmp_path: Path, name: str, text: str, parts: tuple[int, int]) -> None:
    """Layers with `forward`, memory with `update`; nodes without mail keep their memory."""
    folder, own = prepared(tmp_path, stream(features=2)), written(tmp_path, name, text)
    made, result = one_pass(folder, own)
    shape = made.material.shape
    assert (shape.layers, shape.memory) == parts and shape.parameters == sum(value.numel() for value in made.learner.model.parameters())
    assert np.isfinite(result.losses).all() and len(set(result.losses.tolist())) > 1
    assert not made.state.memory[8].any()  # the node without events
    assert bool(made.state.memory.any()) is bool(shape.memory)


def test_a_job_takes_its_models_file_along(tmp_path: Path) -> None:
    """In a bundle, its path is that of the copy."""
    own = written(tmp_path, "Mean", MEAN)
    np.save(tmp_path / "s.npy", np.zeros(1))
    data = str(tmp_path / "s.npy")
    job = Job("x", (Item("x", data, data, hyper("tgn")),), str(tmp_path), ModelChoice(own), 1, modules=())
    bundle, sources = Bundle.pack(job)
    packed = Job(**json.loads(bundle.texts["job.json"]))
    assert str(packed.model["name"]) == "1/mean.py:Mean" and tmp_path / "mean.py" in sources.values()  # type: ignore[index]


def changed(old: str, new: str, text: str = MEAN) -> str:
    assert old in text
    return text.replace(old, new)


RETURNED = "return self.merge(torch.cat([rows, mean], 1))"
WRONG: dict[str, tuple[str, str]] = {
    "no class": ("", r"no 'Mean' in it; expected `class Mean\(torch\.nn\.Module\)` with `forward` or `update`"),
    "no module": ("class Mean:\n    pass", r"'Mean' is not a class of modules; expected"),
    "an instance": ("Mean = 3", r"'Mean' is not a class of modules; expected"),
    "no method": (changed("def forward", "def backward"), r"'Mean' defines neither `forward`, which reads neighbours, nor `update`"),
    "not importable": ("import no_such_module", r"not importable \(ModuleNotFoundError"),
    "no argument": (changed("self, shape", "self"), r"Mean\.__init__\(shape\): TypeError: .*takes 1 positional argument but 2 were given"),
    "raises": (
        changed("super().__init__()", "super().__init__()\n        raise OSError('no')"),
        r":9: Mean\.__init__\(shape\): OSError: no",
    ),
    "sizes": (changed("2 * shape.width(0)", "5"), r":13: Mean\.forward: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    "shape": (
        changed("shape.hidden", "1"),
        r"Mean\.forward returned torch\.float32 \[3, 1\], expected torch\.float32 \[3, 6\], \[rows, hid",
    ),
    "type": (changed(RETURNED, "return [rows]"), r"Mean\.forward returned list, expected torch\.float32 \[3, 6\]"),
    "float64": (
        changed(RETURNED, RETURNED + ".double()"),
        r"Mean\.forward returned torch\.float64 \[3, 6\], expected torch\.float32 \[3, 6\]",
    ),
    "parameters": (changed("shape.hidden)", "shape.hidden).double()"), r"Mean\.merge\.weight is torch\.float64, expected parameters of"),
    "not finite": (changed(".clamp_min(1e-9)", ""), r"Mean\.forward returned values that are not finite, such as where a node has no"),
    "gradient": (
        changed(RETURNED, "return self.merge(torch.cat([rows, mean], 1)).mul(0).sqrt()"),
        r"Mean\.forward: the gradient of merge\.weight is not finite",
    ),
    "update": (
        MEAN + "\n    def update(self, memory, message, elapsed, sent):\n        return message\n",
        r"Mean\.update returned torch\.float32 \[3, 14\], expected torch\.float32 \[3, 6\]",
    ),
    "embed": (
        MEAN + "\n    def embed(self, rows):\n        return rows\n",
        r"Mean\.embed: TypeError: .*takes 2 positional arguments but 3",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(UserError, match=message) as error:
        untrained(written(tmp_path, "Mean", text))
    assert str(error.value).startswith(str(tmp_path / "mean.py")) and "\n" not in str(error.value)


def test_a_shape_that_only_some_batches_have_is_refused_then(tmp_path: Path) -> None:
    own = written(tmp_path, "Mean", changed(RETURNED, RETURNED + "[: 5 if len(rows) > 5 else None]"))
    folder = prepared(tmp_path, stream(features=2))
    with pytest.raises(UserError, match=r"mean\.py: Mean\.forward returned torch\.float32 \[5, 6\], expected torch\.float32 \[21, 6\]"):
        one_pass(folder, own)


def test_the_trial_draws_nothing_that_parameters_follow_from(tmp_path: Path) -> None:
    """Two models of one seed are equal, and what is drawn afterwards is not theirs."""
    own = written(tmp_path, "TGN", TGN)
    torch.manual_seed(5)
    first, drawn = untrained(own), torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)
    for one, other in zip(first.parameters(), untrained(own).parameters(), strict=True):
        assert torch.equal(one, other) and one.grad is None
    assert first.training and all(part.training for part in first.modules())


@pytest.mark.parametrize(("name", "text", "near"), [("TGN", TGN, "tgn"), ("Mean", MEAN, "tgat"), ("Projected", PROJECTED, "jodie")])
def test_plans_of_a_file_are_those_of_the_model_like_it(tmp_path: Path, name: str, text: str, near: str) -> None:
    """The same rows on the same lanes, and as many kernels, as an estimate."""
    folder, own = prepared(tmp_path, stream()), written(tmp_path, name, text)
    for strategy in ("tgl", "fast"):
        mine, ours = (planned(folder, choice(model), hyper(model), strategy) for model in (own, near))
        for column in ("op", "lane", "kernels", "rank"):
            np.testing.assert_array_equal(getattr(mine, column), getattr(ours, column))
    assert stream_kind(own).source == "a file of one's own"
