"""Joint draws: assumptions drawn together, an epoch in every draw, and the value of each at which the order of two strategies turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from chronoscale.simulator.uncertainty.assumptions import Assumption, assume
from chronoscale.simulator.uncertainty.draws import Draws
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.strategies.costs import Floats

STEPS = 6  # halvings of a range in which an order turns
NOISE_DRAWS = 3  # replays of what differs from draw to draw; their median counts
FEW = 20  # draws below which a band is from the least to the most


def places(draws: int, assumptions: int, seed: int) -> Floats:
    """Return where in their ranges assumptions lie in each draw, float64 [draws, assumptions], 0 to 1: a scrambled Sobol sequence.

    The first draws of a seed are the same however many there are.
    """
    from scipy.stats.qmc import Sobol  # noqa: PLC0415 (heavy, and a simulation without joint draws does without)

    sequence = Sobol(assumptions, rng=np.random.default_rng(seed)).random_base2(max(0, (draws - 1).bit_length()))
    return np.asarray(sequence[:draws], np.float64)


def epoch_s(scenario: Scenario, seed: int, draw: int = 0) -> float:
    """Return the seconds of an epoch in one draw of what its rows vary by. Raises UserError as a replay."""
    draws = Draws.of(*scenario[:4], seed)
    if scenario.seconds is None:
        return draws.span(draw) / 1e9
    return scenario.seconds(scenario.schedule, draws.trace(draw))


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Epoch of one strategy to be simulated with other assumptions, one at a time or together.

    scenario: the usual one; assumptions: those that can matter to any strategy that it is compared with.
    """

    scenario: Scenario
    assumptions: tuple[Assumption, ...]
    seed: int

    def drawn(self, places: Floats, draw: int) -> float:
        """Return the epoch in one joint draw, s. places: of the assumptions in their ranges, float64 [assumptions]."""
        values = [each.value(place) for each, place in zip(self.assumptions, places, strict=True)]
        return epoch_s(assume(self.scenario, self.assumptions, values), self.seed, draw)

    def usual(self) -> float:
        """Return the epoch with no assumption changed, s, the median where draws differ."""
        return self._middle(self.scenario)

    def single(self, which: int, value: float) -> float:
        """Return the epoch with one assumption at a value, s, the median where draws differ."""
        return self._middle(assume(self.scenario, self.assumptions[which : which + 1], [value]))

    def _middle(self, scenario: Scenario) -> float:
        draws = NOISE_DRAWS if scenario.uncertainty.random else 1
        return float(np.median([epoch_s(scenario, self.seed, draw) for draw in range(draws)]))


class Flip(NamedTuple):
    """Value of one assumption at which the order of two strategies turns, all others as they are usually; usual: its value there.

    Of noise, the end of its range, at which the order has turned.
    """

    assumption: str
    value: float
    usual: float
    shown: str
    usually: str


class Near(NamedTuple):
    """End of an assumption's range that takes a strategy's advantage furthest towards 1, where none turns the order; ratio: there."""

    assumption: str
    shown: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Conclusion on two strategies under joint assumptions: `faster` takes less time than `slower` as usually simulated.

    usual: how many times as fast it is then; share, tied: of the joint draws in which it is faster, and as fast, 0 to 1; low, middle, high:
    the 5th, 50th and 95th percentile of the ratio, of few draws the least, the middle and the most; draws: how many; assumptions: how many
    move either. flips: each assumption that by itself turns the order, the one nearest to its usual value first; near: where none does, the
    end of a range that comes nearest, None where none lowers the ratio. caveat: how they train otherwise, '' where they train alike.
    """

    faster: str
    slower: str
    usual: float
    share: float
    low: float
    middle: float
    high: float
    draws: int
    assumptions: int
    flips: tuple[Flip, ...] = ()
    near: Near | None = None
    caveat: str = ""
    tied: float = 0.0

    def __str__(self) -> str:
        band = f"{self.low:.3g} to {self.high:.3g}" if f"{self.low:.3g}" != f"{self.high:.3g}" else f"{self.low:.3g}"
        caveat = f" ({self.caveat})" if self.caveat else ""
        if self.usual == self.tied == 1.0:
            return f"{self.faster} is as fast as {self.slower}{caveat} in all of {self.draws} joint draws"
        only = "only " * (self.share < 0.5)
        draws = f"{only}{percentage(self.share)} of {self.draws} joint draws of {self.assumptions} assumptions"
        part = "all draws" if self.draws < FEW else "the middle 90 % of the draws"
        start = (
            f"{self.faster} is faster than {self.slower}{caveat} in {draws}: {band} times as fast in {part}, "
            f"{self.usual:.3g} as usually assumed"
        )
        if self.flips:
            turns = "; ".join(f"{flip.assumption} at {flip.shown} (usually {flip.usually})" for flip in self.flips[:2])
            return f"{start}. It turns with {turns}"
        if self.near is None:
            return f"{start}. No assumption lowers it by itself"
        nearest = f"{self.near.assumption} at {self.near.shown}: {self.near.ratio:.3g} times"
        return f"{start}. No assumption turns it by itself at either end of its range; nearest, {nearest}"


@dataclass(frozen=True, slots=True, eq=False)
class JointResult:
    """Epochs of strategies under the same joint draws of the same assumptions.

    usual_s: by strategy, with none changed; drawn_s: by strategy, float64 [draws]; ends_s: by strategy, with each assumption alone at
    either end of its range, float64 [assumptions, 2].
    """

    assumptions: tuple[Assumption, ...]
    usual_s: Mapping[str, float]
    drawn_s: Mapping[str, Floats]
    ends_s: Mapping[str, Floats]

    def conclude(self, pair: tuple[str, str], single: Callable[[str, int, float], float], usual: Sequence[float]) -> Conclusion:
        """Return what holds of two strategies.

        single: simulates one, by name, with an assumption by number at a value, s; called where the order is another at the end of its
        range. usual: values of the assumptions.
        """
        faster, slower = sorted(pair, key=lambda name: self.usual_s[name])
        ratio = self.drawn_s[slower] / self.drawn_s[faster]
        ends = self.ends_s[slower] / self.ends_s[faster]
        low, middle, high = map(float, np.percentile(ratio, (5, 50, 95) if len(ratio) >= FEW else (0, 50, 100)))
        flips: list[tuple[float, Flip]] = []
        for which, assumption in enumerate(self.assumptions):
            for end, at in zip((assumption.low, assumption.high), ends[which], strict=True):
                if at < 1:
                    ratio_at = partial(_ratio, single, slower, faster, which)
                    value = end if assumption.noise else _turn(ratio_at, usual[which], end, assumption)
                    far = abs(_place(assumption, value) - _place(assumption, usual[which]))
                    flips.append((far, Flip(assumption.name, value, usual[which], assumption.shown(value), assumption.shown(usual[which]))))
        moved = np.zeros(len(self.assumptions), bool)
        for name in pair:
            moved |= (self.ends_s[name] != self.usual_s[name]).any(axis=1)
        return Conclusion(
            faster,
            slower,
            self.usual_s[slower] / self.usual_s[faster],
            float((ratio > 1).mean()),
            low,
            middle,
            high,
            len(ratio),
            int(moved.sum()),
            tuple(flip for _, flip in sorted(flips)),
            None if flips else self._nearest(ends, self.usual_s[slower] / self.usual_s[faster]),
            tied=float((ratio == 1).mean()),
        )

    def _nearest(self, ends: Floats, usual: float) -> Near | None:
        """Return the end of a range at which the ratio is least; None where it is nowhere less than usual."""
        which, side = np.unravel_index(int(ends.argmin()), ends.shape)
        if not ends[which, side] < usual:
            return None
        assumption = self.assumptions[which]
        return Near(assumption.name, assumption.shown((assumption.low, assumption.high)[side]), float(ends[which, side]))


def percentage(share: float) -> str:
    """Return a share as a percentage, 0 and 100 only where it is that."""
    shown = f"{share:.0%}"
    return "more than 99%" if shown == "100%" and share < 1 else "less than 1%" if shown == "0%" and share > 0 else shown


def _ratio(single: Callable[[str, int, float], float], slower: str, faster: str, which: int, value: float) -> float:
    return single(slower, which, value) / single(faster, which, value)


def _place(assumption: Assumption, value: float) -> float:
    """Return where in its range a value lies, 0 to 1 inside."""
    low, high = (np.log(assumption.low), np.log(assumption.high)) if assumption.log else (assumption.low, assumption.high)
    return float(((np.log(value) if assumption.log else value) - low) / (high - low))


def _turn(ratio: Callable[[float], float], inside: float, outside: float, assumption: Assumption) -> float:
    """Return the value nearest to `inside` at which a ratio is below 1, between there, where it is not, and `outside`, where it is."""
    if assumption.whole:
        steps = np.arange(inside, outside, np.sign(outside - inside))[1:]
        return float(next((value for value in steps if ratio(value) < 1), outside))
    for _ in range(STEPS):
        middle = float(np.sqrt(inside * outside)) if assumption.log else (inside + outside) / 2
        if ratio(middle) < 1:
            outside = middle
        else:
            inside = middle
    return outside
