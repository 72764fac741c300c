"""Origin: digests of what a study's result is made of: its files, the code that it runs and the data that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from chronoscale.datasets.catalogue import data_folder
from chronoscale.datasets.entries import entry, names
from chronoscale.harness.runs.content import digest
from chronoscale.harness.study.code import code_digest, path_of
from chronoscale.harness.study.point import content_key
from chronoscale.harness.study.study_file import StudyFile, paper_file
from chronoscale.reports.published import PAPERS, published

STUDY = "chronoscale.harness.study"
HOOKS, TESTBEDS = f"{STUDY}.hooks", f"{STUDY}.testbeds"
EXPERIMENT = "experiment"  # axis of points that are planned from an experiment file's keys, and the testbed of those


@dataclass(frozen=True, slots=True)
class Origin:
    """Digests of what a study's result is made of, by which one that is not up to date is known.

    study: its file, its paper's, and what that prints, without how long it takes. code: of all modules that make the result. data: entries
    of the catalogue that these name, and the files of those that are at hand.
    """

    study: str
    code: str
    data: str

    @classmethod
    def of(cls, study: StudyFile) -> Origin:
        """Return the origin that a study's result has if it is made now."""
        shared = paper_file(study.paper).model_dump(mode="json")
        printed = published(study.paper).model_dump(mode="json", exclude={"claims"}) if study.paper in PAPERS else None
        keys = [study.model_dump(mode="json", exclude={"about_s"}), shared, printed]
        own = _modules(shared["testbed"], (*shared["hooks"], *study.hooks), f'"{EXPERIMENT}"' in study.model_dump_json())
        return cls(content_key(keys), code_digest(f"{STUDY}.study_run", *own), data_digest(json.dumps(keys), own))

    def changed(self, before: Mapping[str, str]) -> list[str]:
        """Return which of the digests are not those that a stored result has, by name."""
        return [name for name, now in asdict(self).items() if before.get(name) != now]


def point_origin(axes: Mapping[str, Any], testbed: Mapping[str, Any], hooks: Sequence[str]) -> tuple[str, str]:
    """Return digests of the code that evaluates a point of a study and of the data that it may read.

    axes: of the point. testbed: keys of its paper's. hooks: modules of its study.
    """
    own = _modules(testbed, hooks, EXPERIMENT in axes)
    return code_digest(f"{STUDY}.evaluation", *own), data_digest(json.dumps([axes, testbed], default=str), own)


def _modules(testbed: Mapping[str, Any], hooks: Sequence[str], experiment: bool) -> tuple[str, ...]:
    """Return the modules that a study runs besides those of all studies: its hooks, its paper's testbed, and that of experiments."""
    beds = [*([testbed["family"]] if "family" in testbed else ()), *([f"{EXPERIMENT}s"] if experiment else ())]
    return *(f"{HOOKS}.{name}" for name in hooks), *(f"{TESTBEDS}.{name}" for name in beds)


def data_digest(text: str, modules: Sequence[str] = ()) -> str:
    """Return a digest of the data that a text or the sources of modules name: their entries of the catalogue, those of what they stand for
    or what stands for them, and the content of files that are at hand."""
    read = _words(text).union(*(_words(path.read_text(encoding="utf-8")) for module in modules if (path := path_of(module))))
    named = {name for name in names() if name in read}
    named |= {of.dataset for name in named if (of := entry(name).stands_for)}
    named |= {name for name in names() if (of := entry(name).stands_for) and of.dataset in named}
    return _of_entries(tuple(sorted(named)))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text))


@cache
def _of_entries(named: Sequence[str]) -> str:
    entries = [entry(name) for name in named]
    files = [data_folder() / one.file for one in entries if one.file is not None]
    return content_key([one.model_dump(mode="json") for one in entries], [digest(file) if file.exists() else "" for file in files])
