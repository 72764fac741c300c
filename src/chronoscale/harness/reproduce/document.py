"""Document: one page a paper, made of a template and of stored results, so that no sentence can contradict a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.conclusion_section import conclusion_section
from chronoscale.harness.reproduce.pages import markdown, readable
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.study.expressions import filled, plural
from chronoscale.harness.study.findings import NEAR, set_aside
from chronoscale.harness.study.results import CONCLUSIONS, StoredResult, load_result
from chronoscale.harness.study.study_file import folder
from chronoscale.reports.published import published

HEAD = """# {name}, reproduced

Made by `chronoscale reproduce {paper} --into PAGE --out {results}` from stored results; with `--all`,
`--figure N` or `--table N` they are made first. Numbers in sentences are taken from the rows below."""


def document(paper: str, results: Path) -> str:
    """Return the page of a paper that `chronoscale reproduce --into` writes, as Markdown.

    The paper's `page.md` with numbers filled in, then a section for each result. paper: its key, such as 'real'. results: folder with
    `<paper>/<study>.json`. Raises UserError for an unknown paper, for no result at all, and for a template that names a missing row.
    """
    studies = registry.of(paper)
    stored = {one.file_name: load_result(path) for one in studies if (path := results / paper / f"{one.file_name}.json").is_file()}
    if not stored:
        raise UserError(f"{results / paper}: no result of a study; `chronoscale reproduce {paper} --all --out {results}` makes them")
    template = folder(paper) / "page.md"
    names = {"name": published(paper).name, "paper": paper, "results": results.name}
    missing = [one.file_name for one in studies if one.file_name not in stored or stored[one.file_name].quick]
    if missing:
        prose = f"Not run in full: {', '.join(missing)}. What the page says of all studies is left out until they are there."
    else:
        prose = (
            filled(template.read_text(encoding="utf-8"), {**names, **_lookups(stored), **_summaries(studies, stored)})
            if template.is_file()
            else ""
        )
    parts = [HEAD.format(**names), prose, conclusion_section(_claims(studies, stored))]
    for one in studies:
        if one.file_name in stored:
            parts.append(markdown(one, stored[one.file_name].findings, "##", _made(stored[one.file_name])))
    return "\n".join(part.strip() + "\n" for part in parts if part.strip())


def _claims(studies: Sequence[Study], stored: Mapping[str, StoredResult]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the title of each study that draws conclusions, and the table of them."""
    for one in studies:
        if one.file_name in stored and CONCLUSIONS in (tables := stored[one.file_name].findings.tables):
            yield f"{one.kind.capitalize()} {one.number}", tables[CONCLUSIONS]


def _made(result: StoredResult) -> str:
    """Say when, by which version and in what time a result was made."""
    version, commit = result.environment.get("chronoscale"), result.environment.get("commit")
    by = (f" with chronoscale {version}" if version else "") + (f" ({commit})" if commit else "")
    lasted = f" in {result.minutes:.1f} minutes" if result.minutes else ""
    untimed = f", nor the time of {result.untimed}" if result.untimed else ""
    resumed = f"{result.resumed} points of an earlier run, whose commit is not among these{untimed}" if result.resumed else ""
    limits = "".join(f"; {limit}" for limit in ("a quick subset" if result.quick else "", resumed) if limit)
    return f"Made {result.made}{by}{lasted}{limits}."


def _lookups(results: Mapping[str, StoredResult]) -> dict[str, Callable[..., object]]:
    """What a template may call, each with a study's file name, such as 'figure-8', and the `what` of a row, or words that it contains."""

    def rows(study: str, words: str = "") -> list[dict[str, object]]:
        """Rows whose `what` contains these words. Raises UserError where there is none."""
        if study not in results:
            raise UserError(f"page.md: there is no result of '{study}'")
        table = results[study].findings.rows.to_dict("records")
        matching = [{str(key): value for key, value in row.items()} for row in table if not words or words in str(row.get("what", ""))]
        if not matching:
            raise UserError(f"page.md: {study} has no row with '{words}'")
        return matching

    def row(study: str, what: str) -> dict[str, object]:
        """The one row of this `what`. Raises UserError for none and for several."""
        matching = [one for one in rows(study, what) if one.get("what") == what]
        if len(matching) != 1:
            raise UserError(f"page.md: {study} has {len(matching)} rows '{what}'")
        return matching[0]

    def number(name: str, study: str, what: str, end: str = "mean") -> float:
        one = row(study, what)
        return _value(one, name, end)

    def numbers(name: str, study: str, words: str = "", end: str = "mean") -> list[float]:
        several = (_value(one, name, end) for one in rows(study, words))
        return [value for value in several if value == value]

    def cell(study: str, what: str, column: str = "ours") -> str:
        """A row's cell as the table below shows it."""
        row(study, what)
        table = readable(results[study].findings)
        return str(table[table["what"] == what].iloc[0][column])

    by_name = {"ours": "ours", "printed": "published", "ratio": "ratio"}
    single = {key: partial(number, name) for key, name in by_name.items()}
    several = {f"{key}_all": partial(numbers, name) for key, name in by_name.items()}
    return {**single, **several, "row": row, "rows": rows, "cell": cell}


def _summaries(studies: Sequence[Study], results: Mapping[str, StoredResult]) -> dict[str, Callable[..., str]]:
    """What a template may call to say how numbers were made and how near the printed ones they are, of all studies."""

    def made(way: str) -> str:
        """Figures and tables whose numbers are made in a way, such as 'counted'."""
        return _listed([one for one in studies if results[one.file_name].way == way])

    def partly_executed() -> str:
        """Figures and tables that are made in another way, but have points that were executed."""
        return _listed([one for one in studies if one.executes and results[one.file_name].way != "executed"])

    def machines() -> str:
        """Machines on which studies were executed."""
        on = (results[one.file_name].environment for one in studies if results[one.file_name].way == "executed")
        several = dict.fromkeys(f"{one['device']}, {one['cores']} cores" for one in on)
        return " and ".join(several)

    def near() -> str:
        """How many rows are within NEAR times of what is printed, of all that have a printed number and are not set aside."""
        rows = [row for result in results.values() for row in result.findings.rows.to_dict("records") if not set_aside(row)]
        ratios = [float(ratio) for row in rows if (ratio := row.get("ratio")) == ratio and ratio is not None]
        close = sum(1 / NEAR <= ratio <= NEAR for ratio in ratios)
        return f"within {NEAR} times of a printed number: {close} of {len(ratios)}"

    return {"made": made, "partly_executed": partly_executed, "machines": machines, "near": near}


def _listed(studies: Sequence[Study]) -> str:
    """Figures and tables in words: 'Figures 1, 3 and 4 and Table 2'."""
    kinds = []
    for kind in registry.KINDS:
        *others, last = ["", *(str(one.number) for one in studies if one.kind == kind)]
        if last:
            numbers = " and ".join(filter(None, (", ".join(filter(None, others)), last)))
            kinds.append(f"{plural(len(others), kind.capitalize())} {numbers}")
    return " and ".join(kinds) or "none"


def _value(row: Mapping[str, object], name: str, end: str) -> float:
    """One end of a row's range, or its single number where it has no range; NaN for neither."""
    values = (float(str(row.get(key, "nan"))) for key in (f"{name}_{end}", name))
    return next((value for value in values if value == value), float("nan"))
