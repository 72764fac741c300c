"""Speed-ups: REAL over its rivals on the grid (Figures 8, 9, 18, 23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.study import NAN, NOT_PRINTED, UNKNOWN, Findings, Told, by_copies, row
from chronoscale.reports.charts.dots import dots
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.ranges import Span, ranges
from chronoscale.reports.published import Range, published

RIVALS = ("esdg", "distdgl", "blad")
OURS = ("real-g", "real-g+", "real-l")
EXACT = "real-l"  # the one strategy that is also shown with exact maps
CELL = ["dataset", "model", "layers"]

FREED = (8, 18, 23)  # figures that are also replayed with host copies free
COPIES = (
    "Host copies: our rivals load the node features with every snapshot, REAL once a group. Rows with host copies free show what the "
    "time of copies is worth, and a row's reason is read off them."
)
Why = Callable[[Range, str, float], str]  # of a printed range, a variant and our ratio to what is printed


def ratios(frame: pd.DataFrame, fast: str, slow: str, variant: str, layers: int | None, column: str = "epoch_s") -> pd.Series[float]:
    """`column` of `slow` over that of `fast`, for every cell that both reached; index (dataset, model, layers)."""
    ran = frame[frame["status"].eq("ran") if column == "epoch_s" else frame["status"].ne("refused")]
    if layers is not None:
        ran = ran[ran["layers"] == layers]
    of = {
        name: ran[ran["strategy"].eq(name) & (ran["variant"].eq(variant) | ~ran["strategy"].str.startswith("real-"))].set_index(CELL)[
            column
        ]
        for name in (fast, slow)
    }
    return (of[slow] / of[fast]).dropna()


def compare(
    frame: pd.DataFrame, printed: Sequence[Range], why: Why, column: str = "epoch_s", variants: Sequence[str] = grid.VARIANTS
) -> pd.DataFrame:
    """A row a printed range and variant of the difference maps; then rivals that the paper has no range for."""
    rows = []
    extra = [Range(strategy="real-g+", over=r.over, layers=r.layers, gpus=r.gpus, low=1) for r in printed if r.strategy == "real-l"]
    for variant in variants:
        for one in [*printed, *extra]:
            if variant == "exact" and one.strategy != EXACT:
                continue
            found = ratios(frame, one.strategy, one.over, variant, one.layers, column)
            if one in extra and not len(found):
                continue
            depth = f", {one.layers} layer{'s' * (one.layers > 1)}" if one.layers else ""
            theirs = None if one in extra else one
            line = row(f"{one.strategy} over {one.over}{depth}, {variant} maps", theirs, found.tolist(), NOT_PRINTED)
            if theirs:
                line["why"] = why(one, variant, float(str(line["ratio"]))) if len(found) else notes.ABSENT
            plans = frame[
                frame["strategy"].eq(one.strategy) & frame["variant"].eq(variant) & frame["layers"].eq(one.layers or frame["layers"])
            ]
            line["why"] = notes.settled(str(line["why"]), plans)
            rows.append(line)
    return pd.DataFrame(rows)


def freed(free: pd.DataFrame) -> Why:
    """Reasons by the same grid with host copies free, which has as-published maps alone."""

    def why(one: Range, variant: str, ratio: float) -> str:
        found = ratios(free, one.strategy, one.over, variant, one.layers).tolist() if len(free) and variant == "as-published" else []
        return by_copies(ratio, float(str(row("", one, found, "")["ratio"])))

    return why


def nowhere(one: Range, variant: str, ratio: float) -> str:
    """The reason of a row that has no printed number."""
    return NOT_PRINTED


def exchanged(frame: pd.DataFrame) -> Why:
    """Reasons by the share of a rival's epoch that its GPUs spend exchanging neighbours."""

    def why(one: Range, variant: str, ratio: float) -> str:
        rival = frame[frame["strategy"].eq(one.over) & frame["status"].eq("ran") & frame["layers"].eq(one.layers or frame["layers"])]
        share = (rival["neighbours"] / rival["gpus"] / rival["epoch_s"]).mean()
        return f"{share:.0%} of our {one.over}'s epoch are all-to-all exchanges; why ours differs is {UNKNOWN}"

    return why


def drawing(rows: pd.DataFrame, name: str, title: str, caption: str, unit: str = "times as fast") -> Drawing:
    """Published above ours."""
    spans = [
        (line["what"], *(Span(*(float(line[f"{whose}_{end}"]) for end in ("low", "mean", "high"))) for whose in ("published", "ours")))
        for line in rows.to_dict("records")
    ]
    return ranges(name, title, caption, unit, spans)


def cells(frame: pd.DataFrame, name: str, title: str, unit: str, base: str, caption: str) -> Drawing:
    """Every cell of the grid, normalised to `base`; a cross where a strategy ran out of memory."""
    shown = frame[(frame["variant"].eq("as-published") | ~frame["strategy"].str.startswith("real-")) & frame["status"].ne("refused")]
    keys = list(dict.fromkeys(zip(shown["dataset"], shown["model"], strict=True)))
    panels: dict[str, dict[str, list[float]]] = {}
    for depth, part in shown.groupby("layers"):
        epochs = part.set_index(["strategy", "dataset", "model"])
        known, lost = epochs["epoch_s"].to_dict(), epochs["status"].eq("out of memory").to_dict()
        panels[f"{depth} layer{'s' * (int(str(depth)) > 1)}"] = {
            strategy: [
                np.inf if lost.get((strategy, *key), False) else known.get((base, *key), np.nan) / known.get((strategy, *key), np.nan)
                for key in keys
            ]
            for strategy in dict.fromkeys(part["strategy"])
        }
    return dots(name, title, caption, unit, [f"{dataset}, {model}" for dataset, model in keys], panels)


def run(
    number: int, layers: tuple[int, ...], cluster: str, gpus: tuple[int, ...], datasets: tuple[str, ...], told: Told, quick: bool
) -> Findings:
    """Epochs of all strategies on the grid, replayed; the figure's ranges from them. datasets: the whole grid's where there are none."""
    datasets = datasets or grid.DATASETS
    printed = published("real").figures[number]
    wanted = ("psg", *RIVALS, *OURS)
    frames = [grid.frame(grid.both(wanted, EXACT, quick, layers, cluster, count, datasets), told) for count in gpus]
    frame = pd.concat(frames, ignore_index=True)
    main = frames[0]
    said_also: tuple[str, ...] = ()
    if number in FREED:
        compared = (*RIVALS, *dict.fromkeys(one.strategy for one in printed.ranges))
        free = grid.frame(grid.points(compared, quick, layers, cluster, gpus[0], datasets, variants=("as-published",), copies=False), told)
        rows = compare(main, printed.ranges, freed(free))
        more = compare(free, printed.ranges, freed(free[:0]), variants=("as-published",))
        rows = pd.concat([rows, more.assign(what=more["what"] + ", host copies free")], ignore_index=True)
        said_also = (COPIES,)
    else:
        rows = compare(main, printed.ranges, exchanged(main))
    for count, other in zip(gpus[1:], frames[1:], strict=True):
        more = compare(other, [Range(strategy="real-l", over=rival, low=1) for rival in RIVALS], nowhere, variants=("as-published",))
        more[["published_low", "ratio"]] = NAN
        rows = pd.concat([rows, more.assign(what=more["what"] + f", {count} GPUs")], ignore_index=True)
    base = "esdg" if (main["strategy"].eq("esdg") & main["status"].eq("ran")).any() else "psg"
    said = f"Simulated on {cluster}, {gpus[0]} GPUs, durations specified (datasheet roofline); generated stand-ins of Table 3."
    drawn = (
        drawing(rows, f"real-figure-{number}-ranges", printed.title, f"Speed-ups over the grid, published above ours. {said}"),
        cells(
            main, f"real-figure-{number}-cells", printed.title, f"times as fast as {base}", base, f"As-published difference maps. {said}"
        ),
    )
    return Findings(rows, drawn, {"points": frame}, (*notes.of(frame, wanted, quick), *said_also))
