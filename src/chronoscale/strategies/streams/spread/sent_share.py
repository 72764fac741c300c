"""SentShare: what share of the changes of shared nodes passes alpha (MemShare eq. 19), read off curves that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import yaml

from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.workload import Workload


class SentShare(NamedTuple):
    """Share of the changes of shared nodes' memory that ranks send each other, in the mean of a training's epochs.

    low, high: the band, the least and the most of a single epoch of any seed; of a stream without a curve, of any stream. origin: in words,
    where it is from; '' for a share that the user has set.
    """

    middle: float
    low: float
    high: float
    origin: str = ""

    def __str__(self) -> str:
        """Return the share with its band and where it is from, for a plan's note; '' for a share that the user has set."""
        if not self.origin:
            return ""
        return f"{self.middle:.0%} of the changes of shared nodes are taken to be sent ({self.low:.0%} to {self.high:.0%}), {self.origin}"


class SentCurve(NamedTuple):
    """Measured shares of the changes of shared nodes that pass alpha, on one event stream with one model.

    stream: its name; settings: in words, what it was measured with; nodes, events: of the stream, by which it is known; steps: optimiser
    steps of an epoch; alphas float64 [A], ascending; shares float64 [A, seeds, epochs].
    """

    stream: str
    model: str
    settings: str
    nodes: int
    events: int
    steps: int
    alphas: Floats
    shares: Floats

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> SentCurve:
        """Read a curve from its entry in sent_curves.yaml."""
        names = list(entry["runs"][0])
        shares = np.array([[run[name] for run in entry["runs"]] for name in names], np.float64)
        alphas = np.array([float(name) for name in names])
        known = (entry[key] for key in ("stream", "model", "settings", "nodes", "events", "steps"))
        return cls._make([*known, alphas, shares])

    def at(self, alpha: float) -> Floats:
        """Return the share of each epoch at a threshold, float64 [seeds, epochs].

        Its logarithm is interpolated in that of alpha; below the least that was measured, in alpha, from 1 at 0.
        """
        logs = np.log(np.maximum(self.shares, 1e-6))
        if alpha < self.alphas[0]:
            return np.asarray(np.exp(alpha / self.alphas[0] * logs[0]))
        above = int(np.clip(np.searchsorted(self.alphas, alpha), 1, len(self.alphas) - 1))
        first, last = np.log(self.alphas[above - 1 : above + 1])
        return np.asarray(np.exp(logs[above - 1] + min((np.log(alpha) - first) / (last - first), 1.0) * (logs[above] - logs[above - 1])))

    def predict(self, alpha: float, steps: int) -> SentShare:
        """Predict the mean share of a training of so many optimiser steps at a threshold alpha; 0: of all that was measured.

        Memory turns most in the first steps, so that epochs count by the steps that they have in common with the training; what comes after
        the last that was measured is as that was.
        """
        shares, start = self.at(alpha), self.steps * np.arange(self.shares.shape[2])
        length = steps or self.steps * len(start)
        common: Ints = np.diff(np.append(np.minimum(start, length), length))
        seen = shares[:, common > 0]
        origin = f"as measured on {self.stream} ({self.model}, {self.settings})"
        return SentShare(float((shares.mean(0) * common).sum() / length), float(seen.min()), float(seen.max()), origin)


@cache
def sent_curves() -> tuple[SentCurve, ...]:
    """Return the curves of the package's sent_curves.yaml, which says how they were measured."""
    text = resources.files("chronoscale.strategies.streams.spread").joinpath("sent_curves.yaml").read_text(encoding="utf-8")
    return tuple(SentCurve.of(entry) for entry in yaml.safe_load(text)["curves"])


def typical_share(alpha: float, steps: int = 0) -> SentShare:
    """Return the mean of what all curves predict, with a band from the least to the most of any, for streams that have none.

    alpha, steps: as `SentCurve.predict` takes them.
    """
    shares = [curve.predict(alpha, steps) for curve in sent_curves()]
    streams = ", ".join(curve.stream for curve in sent_curves())
    middle, low, high = np.mean([one.middle for one in shares]), min(one.low for one in shares), max(one.high for one in shares)
    return SentShare(float(middle), low, high, f"as on other streams ({streams})")


def sent_share(workload: Workload, iterations: int) -> SentShare:
    """Return what share of the changes of shared nodes a plan takes to be sent, where only significant ones are.

    It is `training.sent` where that is set; else predicted from the curve of the stream and the model; without one, or where an epoch is
    cut short, what is typical of others. iterations: optimiser steps of an epoch.
    """
    events, sharing, model, cut = workload.events, workload.hyper.events.sharing, workload.model.name, workload.hyper.batches
    if sharing.sent is not None:
        return SentShare(sharing.sent, sharing.sent, sharing.sent)
    steps = iterations * sharing.epochs
    for curve in sent_curves() if not cut else ():
        if (curve.nodes, curve.events, curve.model) == (events.num_nodes, events.events, model):
            return curve.predict(sharing.alpha, steps)
    typical = typical_share(sharing.alpha, steps)
    why = f"of epochs cut to {cut} steps" if cut else f"of this one with {model}"
    return typical._replace(origin=f"{typical.origin}: {why} none was measured, training.sent sets it")
