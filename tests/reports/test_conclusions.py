"""Conclusions of a report: those on the most ranks open it, and its table says on how many ranks each holds."""

from types import SimpleNamespace
from typing import Any

from chronoscale.reports.conclusions import conclusion_sentence, conclusions
from chronoscale.simulator.uncertainty.joint import Conclusion, Flip, Near


def conclusion(faster: str, slower: str, usual: float, **keys: Any) -> Conclusion:
    return Conclusion(faster, slower, usual, 0.9, 1.1, 1.5, 2.0, 64, 5, **keys)


def section(*runs: tuple[int, tuple[Conclusion, ...]], baseline: str = "slow") -> Any:
    return SimpleNamespace(comparable=[SimpleNamespace(ranks=ranks, conclusions=known) for ranks, known in runs], baseline=baseline)


FEW = conclusion("middle", "fast", 1.2, flips=(Flip("a", 2.0, 1.0, "2", "1"), Flip("b", 0.5, 1.0, "× 0.5", "× 1")))
MOST = (conclusion("fast", "slow", 3.0, near=Near("a", "9", 1.1)), conclusion("fast", "middle", 2.0), conclusion("middle", "slow", 1.5))


def test_sentences_are_on_the_fastest_of_the_most_ranks() -> None:
    """Against the baseline, and against the next; of one that is both, once."""
    against_baseline, against_next = (f"On 8 GPUs {each}." for each in MOST[:2])
    assert conclusion_sentence(section((2, (FEW,)), (8, MOST))) == f"{against_baseline} {against_next}"
    assert conclusion_sentence(section((8, MOST[:1]))) == against_baseline
    assert conclusion_sentence(section((1, MOST[:1]))).startswith("On 1 GPU fast is faster than slow in 90% of 64 joint draws")
    assert conclusion_sentence(section((8, ()))) == ""


def test_a_row_says_on_how_many_ranks_it_holds() -> None:
    """Two records of one conclusion, as when a run is reported twice, are one row."""
    table = conclusions(section((2, (FEW,)), (8, MOST), (8, MOST[:1])))
    assert list(zip(table["ranks"], table["faster"], table["slower"], strict=True)) == [
        (8, "fast", "slow"), (8, "fast", "middle"), (8, "middle", "slow"), (2, "middle", "fast"),
    ]  # fmt: skip
    assert table["turned_by"].tolist() == ["none; nearest a at 9: 1.1", "none", "none", "a at 2 (usually 1); b at × 0.5 (usually × 1)"]
