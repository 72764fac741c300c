"""Rows of the studies: what every quick study counted, simulated or modelled when its numbers were kept, to 15 digits."""

import json
import lzma
from pathlib import Path

import pytest
import study_rows
from small_studies import run_registered

from chronoscale.harness.reproduce import registry

KEPT = json.loads(lzma.decompress(Path(__file__).with_name("study_rows.json.xz").read_bytes()))
FAST = {"real-table-3", "memshare-table-2", "fast-table-3", "pgt-i-table-1", "pgt-i-figure-3"}  # of about a second
NAMED = {study.name: study for study in registry.every()}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in sorted(KEPT)])
def test_rows_are_those_that_were_kept(name):
    given = study_rows.numbers(run_registered(NAMED[name], quick=True))
    assert list(study_rows.differences(KEPT[name], given, name, rounded=1e-15)) == []


def test_every_study_that_is_not_executed_is_kept():
    assert {study.name for study in NAMED.values() if study.way != "executed"} == set(KEPT)


def test_differences_are_found():
    one = {"rows": {"what": ["a", "b"], "ours": [1.0, None]}, "tables": {}}
    assert list(study_rows.differences(one, one)) == []
    other = {"rows": {"what": ["a", "c"], "ours": [1.0 + 1e-15, None]}, "tables": {}}
    assert len(list(study_rows.differences(one, other))) == 2
