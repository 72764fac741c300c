"""Tables: what the parts found as Markdown, made from their JSON files alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from gpu import targets
from gpu.parts import PARTS
from gpu.place import Place
from gpu.record import Record

Data = dict[str, Any]
SIZES = ("graph", "targets", "F", "edges", "longest", "share")


def write(place: Place) -> str:
    """Into tables.md in `out`, and the fitted cost models beside it, named as in real_exec/profiles; the tables."""
    records = {part: Record.read(path) for part in PARTS if (path := place.found(part)) is not None}
    text = document(records)
    place.out.mkdir(parents=True, exist_ok=True)
    (place.out / "tables.md").write_text(text)
    for data in records.values():
        if "costs" in data and not data.get("rehearsal"):
            (place.out / data["file"]).write_text(json.dumps(data["costs"], indent=1))
    return text


def document(found: dict[str, Data]) -> str:
    """All that is there, part by part."""
    sections = [parts(found)]
    makers = {
        "contracts": contracts,
        **dict.fromkeys(("losses", "ranks"), losses),
        "kernels": kernels,
        "edges": edges,
        "profile": fits,
        "validate": validated,
        **dict.fromkeys(("windows", "streams", "signals"), family),
        "launch": launches,
        "figure15": figure15,
    }
    for name, make in makers.items():
        if name in found:
            body, judged = make(found[name]), targets.of(name, found[name])
            sections += [f"## {name}\n\n{body}", judged] if body else []
    rehearsed = [name for name, data in found.items() if data.get("rehearsal")]
    if rehearsed:
        sections.insert(0, f"**A rehearsal on a CPU, on small sizes: no figure here says anything of a GPU** ({', '.join(rehearsed)}).")
    return "\n\n".join(section for section in sections if section) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown; nothing without rows."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines]) if lines else ""


def parts(found: dict[str, Data]) -> str:
    """State and minutes, and the machines that they ran on."""
    states = table(
        ("part", "state", "minutes", "of at most", "commit", "sources"),
        [
            (n, d["status"], d.get("minutes", "–"), f"{PARTS[n].minutes:g}", d.get("commit") or "–", d.get("sources", "–"))
            for n, d in found.items()
        ],
    )
    whys = [f"- {name}: {data['why']}" for name, data in found.items() if data.get("why")]
    machines = {json.dumps({**data.get("machine", {}), "gpu": None}): data.get("machine", {}) for data in found.values()}
    described = [
        "- " + ", ".join(f"{k} {v}" for k, v in {**one.get("gpu", {}), **one}.items() if v and k != "gpu") for one in machines.values()
    ]
    return "\n\n".join(["## parts", states, *(["\n".join(whys)] if whys else []), "\n".join(described)])


def contracts(data: Data) -> str:
    """Cases that passed on the device, by contract."""
    held: dict[str, int] = data.get("contracts", {})
    return table(("contract", "cases on the device"), [(name.removeprefix("tests.cuda_ext."), count) for name, count in held.items()])


def losses(data: Data) -> str:
    """The largest differences of each model, and which strategy has it; a schedule that failed is in the part's words."""
    rows: list[Data] = [row for row in data.get("losses", []) if "difference" in row]
    worst = [
        max((row for row in rows if row["model"] == model), key=lambda row: row["difference"])
        for model in dict.fromkeys(r["model"] for r in rows)
    ]
    counts = {model: sum(row["model"] == model for row in rows) for model in {row["model"] for row in rows}}
    head = ("model", "schedules", "largest difference", "of", "loss on the CPU", "on the device")
    cells = [
        (w["model"], counts[w["model"]], f"{w['difference']:.1e}", w["strategy"], f"{w['cpu']:.6f}", f"{w['device']:.6f}") for w in worst
    ]
    return table(head, cells)


def kernels(data: Data) -> str:
    """Whole sums, increments, attention, rebuilding, and crossovers."""
    texts = [timed(data, ("whole", "changes", "attention", "rebuild"))]
    if crossed := data.get("crossover"):
        head = ("graph", "F", "measured", "predicted", "error", "curve of the whole", "of the increment")
        texts.append("Share of changed edges from which the whole costs less:\n\n" + table(head, [_crossed(row) for row in crossed]))
    return "\n\n".join(text for text in texts if text)


def edges(data: Data) -> str:
    """Sums over edges, shares, gathered rows, what is done with slots."""
    return timed(data, ("sums", "shares", "gathers", "slots", "gates", "encodings"))


def timed(data: Data, keys: Sequence[str]) -> str:
    """A table a key: sizes, ms of each that was timed and how often the first's time that is, shares of a copy's bandwidth, the error."""
    texts, left = [], set[str]()
    for key in keys:
        if not (rows := data.get(key, [])):
            continue
        sizes = [name for name in SIZES if name in rows[0]]
        names = list(dict.fromkeys(who for row in rows for who in row["times"]))
        copied = list(dict.fromkeys(who for row in rows for who in row.get("of_copy", {})))
        cells = [
            (
                *(f"{row[name]:.1%}" if name == "share" else row[name] for name in sizes),
                *(_ms(row, who, names[0]) for who in names),
                *(f"{row['of_copy'][who]:.0%}" if who in row["of_copy"] else "–" for who in copied),
                f"{row['error']:.0e}" if "error" in row else "–",
            )
            for row in rows
        ]
        texts.append(
            f"{key}:\n\n" + table((*sizes, *(f"{who}, ms" for who in names), *(f"{who}, of copy" for who in copied), "error"), cells)
        )
        left |= {f"{who}: {one['left_out']}" for row in rows for who, one in row["times"].items() if "left_out" in one}
    if texts and (absent := data.get("absent")):
        texts.append(f"Not installed: {', '.join(absent)}.")
    return "\n\n".join([*texts, *(["Left out:\n\n" + "\n".join(f"- {one}" for one in sorted(left))] if left else [])])


def _ms(row: Data, who: str, first: str) -> str:
    times, base = row["times"].get(who, {}), row["times"].get(first, {})
    if "ms" not in times:
        return "–"
    ratio = f", {times['ms'] / base['ms']:.2f} times" if who != first and "ms" in base else ""
    return f"{times['ms']:.3f} (±{times['spread']:.0%}){ratio}"


def _crossed(row: Data) -> list[object]:
    shares = [f"{row[key]:.1%}" if isinstance(row[key], float) else row[key] or "–" for key in ("measured", "predicted", "error")]
    return [row["graph"], row["F"], *shares, row["forms"]["AGGREGATE"]["form"], row["forms"]["INCREMENT"]["form"]]


def fits(data: Data) -> str:
    """The fitted curves."""
    rows: list[Data] = data.get("fits", [])
    head = ("operation", "width", "form", "held-out error", "samples")
    return table(head, [(r["op"], r["width"], r["form"], f"{r['held-out error %']:.1f} %", r["samples"]) for r in rows])


def validated(data: Data) -> str:
    """Predicted beside measured."""
    rows: list[Data] = data.get("fidelity", [])
    head = ("strategy", "operation", "predicted, ms", "measured, ms", "error", "spread")
    cells = [
        (r["strategy"], r["op"], f"{r['predicted_ms']:.3f}", f"{r['measured_ms']:.3f}", _percent(r["error_pct"]), _percent(r["spread_pct"]))
        for r in rows
    ]
    return "\n\n".join(filter(None, (table(head, cells), replayed(data))))


def family(data: Data) -> str:
    """Both, of one kind of dynamic graph."""
    return "\n\n".join(filter(None, (fits(data), validated(data))))


def replayed(data: Data) -> str:
    """Epochs on a small cluster, by the costs that were fitted."""
    rows: list[Data] = data.get("simulated", [])
    head = ("strategy", "GPUs", "epoch by the profile, ms", "source")
    return table(head, [(r["strategy"], r["ranks"], f"{1e3 * r['epoch_s']:.3f}", r["sources"]) for r in rows])


def launches(data: Data) -> str:
    """Row by row beside CUDA graphs."""
    rows: list[Data] = data.get("launches", [])
    head = ("family", "strategy", "launched", "epoch, ms", "simulated, ms", "graphs", "losses differ by")
    cells = [
        (
            *(r["family"], r["strategy"], " / ".join(r["launched"])),
            *(" / ".join(f"{ms:.3f}" for ms in r[key]) for key in ("measured_ms", "simulated_ms")),
            *(r["graphs"] or r["why"] or "–", f"{r['difference']:.0e}"),
        )
        for r in rows
    ]
    return table(head, cells)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def figure15(data: Data) -> str:
    """Epochs and parallel efficiency, the datasheet's beside the profile's."""
    known = {(r["strategy"], r["ranks"]): r for r in data.get("fitted", [])}
    rows = [(r, known.get((r["strategy"], r["ranks"]))) for r in data.get("datasheet", [])]
    head = ("strategy", "GPUs", "datasheet: epoch, s", "efficiency", "profile: epoch, s", "efficiency", "source")
    return table(head, [(a["strategy"], a["ranks"], *_epoch(a), *_epoch(b), b["sources"] if b else "–") for a, b in rows])


def _epoch(row: Data | None) -> tuple[str, str]:
    return ("–", "–") if row is None else (f"{row['epoch_s']:.4g}", f"{row['parallel_efficiency']:.1%}")
