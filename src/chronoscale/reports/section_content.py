"""Section content: everything that a report shows of a section, made once for the page, the Markdown and the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from chronoscale.reports.charts import bars, curves, tornado, training
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.conclusions import conclusion_sentence
from chronoscale.reports.findings import Answer, answers, basis, evidence, headline, order_sentence
from chronoscale.reports.readable_table import ReadableTable, readable_table
from chronoscale.reports.report import Report
from chronoscale.reports.section import Section
from chronoscale.reports.setting import describe
from chronoscale.reports.tables import tables

HEADINGS = {
    "comparison": "Comparison",
    "conclusions": "Who is faster under joint assumptions, in what share of the draws, and which assumption alone turns it",
    "assumptions": "What it rests on: the assumptions that matter most, each alone at both ends of its range",
    "links": "The busiest links on the most GPUs, and how busy they are on average",
    "time_by_op": "Seconds in each operation, summed over ranks",
    "breakdown": "Parts of the epoch, mean of the ranks (lanes overlap, communication includes waiting)",
    "fidelity": "Prediction against measurement",
    "order": "Order of strategies, predicted against measured",
    "coverage": "What was compared",
    "stages": "Stages of training",
    "errors": "Test period",
    "horizon": "Errors at each step ahead",
}


@dataclass(frozen=True, slots=True, eq=False)
class SectionContent:
    """Everything that a report shows of one section, made once for its page, its Markdown and its JSON.

    headline: one sentence. stands_on: what each claim rests on. same: what all results share. order: a sentence on whether strategies were
    predicted in the order in which they were measured. figures, fidelity, timelines: in the order of reading. tables: with every column;
    readable_tables: as they are read.
    """

    section: Section
    headline: str
    stands_on: str
    answers: list[Answer]
    same: str
    evidence: str
    order: str
    figures: list[Drawing]
    fidelity: list[Drawing]
    timelines: list[Drawing]
    tables: Mapping[str, pd.DataFrame]
    readable_tables: Mapping[str, ReadableTable]

    @property
    def drawings(self) -> list[Drawing]:
        return [*self.figures, *self.fidelity, *self.timelines]


def section_contents(report: Report) -> list[SectionContent]:
    """Make everything that a report shows of each of its sections (sentences, figures, tables), in their order."""
    return [_content(section, report) for section in report.sections]


def _content(section: Section, report: Report) -> SectionContent:
    """Return the content of one section."""
    stands_on, all_tables = basis(section, report.sections), tables(section)
    in_title = {"source", "dataset", "model", "device", "cluster"}  # which the title says
    return SectionContent(
        section,
        " ".join(filter(None, [headline(section, stands_on), conclusion_sentence(section)])),
        stands_on,
        answers(section),
        describe(tuple((name, value) for name, value in section.setting.facts if name not in in_title)),
        evidence(section.runs),
        order_sentence(section),
        figures(section),
        fidelity_figures(section),
        bars.timelines(section),
        all_tables,
        {name: readable_table(section, table) for name, table in all_tables.items()},
    )


def figures(section: Section) -> list[Drawing]:
    """Draw the figures of a report's section that its results can fill, in reading order.

    Predictions against measurements, and timelines, are drawn apart from these.
    """
    drawings = []
    if section.comparable:
        drawings += (
            [curves.epoch_time(section), curves.scaling(section)] if curves.has_several_counts(section) else [bars.epoch_bars(section)]
        )
    if any(run.effects for run in section.comparable):
        drawings.append(tornado.tornado(section))
    if any(run.op_seconds.sum() > 0 for run in section.runs):
        drawings.append(bars.time_by_op(section))
    if any(run.losses for run in section.runs):
        drawings.append(curves.losses(section))
    controlled = [run for run in section.staged if run.epochs and run.activities]
    plain = [run for run in section.staged if run.epochs and not run.activities]
    drawings += [training.stages(run, f"{section.file}stages-{i + 1}") for i, run in enumerate(controlled)]
    return drawings + ([training.progress(plain, f"{section.file}training")] if plain else [])


def fidelity_figures(section: Section) -> list[Drawing]:
    """Draw the simulator's predictions against measurements for a report's section; no figure where nothing was predicted."""
    return [bars.fidelity(section)] if any(run.prediction is not None and len(run.prediction.frame) for run in section.runs) else []
