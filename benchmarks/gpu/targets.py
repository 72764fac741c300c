"""Targets: what the figures are to be, and whether they are: a line each under a part's tables."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
KERNELS = ("torch.sparse", "pyg scatter", "pyg segment", "dgl")  # of other libraries
SCATTERED, SOFTMAX, TWICE = ("index_add_", "scatter_reduce_"), ("pyg", "obvious"), 2
COPY, FASTER, NEAR, CLOSE = 0.6, 1.3, 0.1, 1e-4


def of(part: str, data: Data) -> str:
    """Markdown; '' for a part without targets."""
    judged = {"kernels": _kernels, "edges": _edges, "losses": _losses, "ranks": _losses}.get(part)
    return "" if judged is None else "\n".join(f"- {line}" for line in judged(data))


def _kernels(data: Data) -> list[str]:
    whole: list[Data] = data.get("whole", [])
    copied = [(row["of_copy"]["aggregate"], _where(row)) for row in whole if row["F"] >= 64 and "aggregate" in row["of_copy"]]
    faster = [
        (row["times"][who]["ms"] / row["times"]["aggregate"]["ms"], f"{who}, {_where(row)}")
        for row in whole
        for who in KERNELS
        if "ms" in row["times"].get(who, {}) and "ms" in row["times"]["aggregate"]
    ]
    least, slowest = min(copied, default=None), min(faster, default=None)
    return [
        _line(f"aggregate at F ≥ 64, at least {COPY:.0%} of a copy's bandwidth", least and (least[0] >= COPY, f"{least[0]:.0%}", least[1])),
        _line(
            f"aggregate, at least {FASTER} times as fast as other libraries' kernels",
            slowest and (slowest[0] >= FASTER, f"{slowest[0]:.2f}", slowest[1]),
        ),
        *(_line(f"crossover predicted within {NEAR:.0%}", _crossed(row)) for row in data.get("crossover", [])),
    ]


def _edges(data: Data) -> list[str]:
    """Each against the fastest of its rivals, where it is worst."""

    def worst(key: str, ours: tuple[str, ...], rivals: tuple[str, ...], wanted: float) -> tuple[bool, str, str] | None:
        rows = [
            (row["times"][who]["ms"] / min(row["times"][own]["ms"] for own in ours), f"{who}, {_where(row)}")
            for row in data.get(key, [])
            for who in rivals
            if "ms" in row["times"].get(who, {}) and all("ms" in row["times"].get(own, {}) for own in ours)
        ]
        least = min(rows, default=None)
        return least and (least[0] >= wanted, f"{least[0]:.2f}", least[1])

    return [
        _line("sums over edges, as fast as torch's and DGL's", worst("sums", ("by atomics", "ascending"), (*KERNELS, *SCATTERED), 1.0)),
        _line(f"edge softmax, at least {TWICE} times as fast as PyG's and torch's", worst("shares", ("edge_softmax",), SOFTMAX, TWICE)),
        _line("the same, forward and backward", worst("shares", ("edge_softmax, both",), tuple(f"{who}, both" for who in SOFTMAX), TWICE)),
    ]


def _crossed(row: Data) -> tuple[bool, str, str]:
    if row["error"] is None:  # one of the two is no share: as it should be where both say the same
        return row["measured"] == row["predicted"], f"measured {row['measured']}, predicted {row['predicted']}", _where(row)
    return row["error"] <= NEAR, f"{row['error']:.1%}", _where(row)


def _losses(data: Data) -> list[str]:
    rows: list[Data] = data.get("losses", [])
    failed = [f"{row['model']} {row['strategy']}" for row in rows if "error" in row]
    worst = max(((row["difference"], f"{row['model']} {row['strategy']}") for row in rows if "difference" in row), default=None)
    what = f"losses within {CLOSE:g} of the CPU's"
    if failed:
        return [_line(what, (False, f"{len(failed)} could not be executed", failed[0]))]
    return [_line(what, worst and (worst[0] <= CLOSE, f"{worst[0]:.1e}", worst[1]))]


def _where(row: Data) -> str:
    return f"{row['graph']}, F = {row['F']}"


def _line(what: str, found: tuple[bool, str, str] | None) -> str:
    """`found`: whether it is kept, the worst figure, and where that is."""
    return f"{what}: not measured" if found is None else f"{what}: {'kept' if found[0] else '**missed**'}, {found[1]} ({found[2]})"
