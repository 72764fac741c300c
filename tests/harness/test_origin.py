"""Origins of results: what changes a digest of code, of data and of a study's files, and what does not."""

import subprocess
import sys
from dataclasses import asdict

import pytest

from chronoscale.datasets import entries
from chronoscale.harness.reproduce import registry
from chronoscale.harness.study import code, evaluation, origin, task
from chronoscale.harness.study.code import code_digest
from chronoscale.harness.study.evaluation import evaluated
from chronoscale.harness.study.origin import Origin, data_digest
from chronoscale.harness.study.point import StudyPoint, StudyResult
from chronoscale.harness.study.task import Task

MODULES = {
    "__init__.py": "",
    "a.py": '"""Prose."""\nimport chronoscale.deep.b\n\n\ndef f(x):\n    """More of it."""\n    return x + 1  # a comment\n',
    "deep/__init__.py": "",
    "deep/b.py": "import chronoscale.c\nENTRY = 'chronoscale.late'\n",
    "c.py": "def g():\n    from chronoscale import inner\n    return inner.ONE\n",
    "inner.py": "import os\nONE = 1\n",
    "late.py": "THIS = f'chronoscale.several.{__name__}'\n",
    "several/__init__.py": "",
    "several/x.py": "import chronoscale.a\n",
    "apart.py": "import chronoscale.a\n",
    "cuda_ext/csrc/cpu/one.cpp": "int one;",
    "cuda_ext/csrc/cuda/one.cu": "int one;",
    "simulator/clusters/one.yaml": "one: 1",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of ten files, and the digest of its module `a` after one of them is changed."""
    monkeypatch.setattr(code, "ROOT", tmp_path)
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def digest_with(name: str = "a.py", old: str = "", new: str = "") -> str:
        before = (tmp_path / name).read_text()
        assert old in before
        (tmp_path / name).write_text(before.replace(old, new) if old else before + new)
        for cached in (code.code_digest, code._source, code._beside):
            cached.cache_clear()
        digest = code_digest("chronoscale.a", "pandas.not_ours", "chronoscale.nowhere")
        (tmp_path / name).write_text(before)
        return digest

    yield digest_with
    for cached in (code.code_digest, code._source, code._beside):
        cached.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        ("a.py", "x + 1", "x + 2"),
        ("a.py", "def f", "def h"),
        ("deep/b.py", "", "B = 1"),
        ("c.py", "return inner", "return 1 + inner"),
        ("inner.py", "ONE = 1", "ONE = 2"),
        ("inner.py", "ONE = 1", "ONE = '1'"),
        ("late.py", "", "B = 1"),
        ("several/x.py", "", "B = 1"),
        ("__init__.py", "", "B = 1"),
        ("deep/__init__.py", "", "B = 1"),
        ("cuda_ext/csrc/cpu/one.cpp", "one", "two"),
        ("simulator/clusters/one.yaml", "1", "2"),
    ],
)
def test_code_that_runs_is_in_the_digest(package, change):
    assert package(*change) != package()


@pytest.mark.parametrize(
    "change",
    [
        ("a.py", "Prose", "Other prose"),
        ("a.py", "More of it", "Less of it"),
        ("a.py", "  # a comment", ""),
        ("a.py", "\n\n\n", "\n\n\n\n# a comment\n"),
        ("apart.py", "", "B = 1"),
        ("cuda_ext/csrc/cuda/one.cu", "one", "two"),
    ],
)
def test_prose_and_what_is_not_imported_are_not(package, change):
    assert package(*change) == package()


@pytest.mark.slow
def test_every_module_that_is_loaded_is_in_the_digest():
    """Of what one process has imported to evaluate points, against what is found without importing."""
    script = "import sys, chronoscale.harness.study.evaluation; print(*(n for n in sys.modules if n.startswith('chronoscale')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    found: set[str] = set()
    waiting = ["chronoscale.harness.study.evaluation"]
    while waiting:
        name = waiting.pop()
        if name not in found and (source := code._source(name)) is not None:
            found.add(name)
            waiting += source.imports
    files = {name for name in loaded if code.path_of(name) is not None}
    assert len(files) > 100 and files - found == set()
    assert "chronoscale.harness.study.testbeds.experiments" not in found, "other papers' testbeds are no point's"


def test_the_catalogue_and_files_are_data(tmp_path, monkeypatch):
    """Named in a text or a module, by what stands for them as well, and by content."""
    monkeypatch.setenv("CHRONOSCALE_DATA", str(tmp_path))
    known = {name: entries.entry(name) for name in entries.names()}

    def digest(text: str, **changed: dict[str, object]) -> str:
        some = {name: one.model_copy(update=changed.get(name, {})) for name, one in known.items()}
        monkeypatch.setattr(origin, "entry", some.__getitem__)
        origin._of_entries.cache_clear()
        return data_digest(text)

    other = {"source": "elsewhere"}
    for text in ('{"dataset": "gdelt"}', "gdelt_like"):
        assert len({digest(text), digest(text, gdelt=other), digest(text, gdelt_like=other)}) == 3
        assert digest(text) == digest(text, arxiv=other)
    file = tmp_path / known["enron_monthly"].file
    file.parent.mkdir()
    digests = [digest("of enron_monthly")]
    for content in ("one", "two"):
        file.write_text(content)
        digests.append(digest("of enron_monthly"))
    assert len(set(digests)) == 3 and digest("enron") == digest("")
    module = "chronoscale.harness.study.hooks.fast_epochs"
    named = ["lastfm", "wikitalk", "gdelt", "bitcoin"]
    assert all(f'"{name}"' in code.path_of(module).read_text() for name in named)
    assert data_digest("", [module]) == data_digest(" ".join(named)) != data_digest("")
    origin._of_entries.cache_clear()


def test_a_study_is_its_files_and_what_is_printed(monkeypatch):
    study = registry.find("flaredtdg", "table", 7).file
    now = Origin.of(study)
    assert now.changed({"study": now.study, "code": now.code, "data": now.data}) == [] and len(now.changed({})) == 3
    assert Origin.of(study.model_copy(update={"about_s": 1e6})) == now
    assert now.changed(asdict(Origin.of(study.model_copy(update={"limit": "half of it"})))) == ["study"]
    assert now.changed(asdict(Origin.of(study.model_copy(update={"hooks": ("fast_threads",)})))) == ["study", "code", "data"]
    shared = origin.paper_file("flaredtdg")
    monkeypatch.setattr(origin, "paper_file", lambda _: shared.model_copy(update={"metrics": ()}))
    assert now.changed(asdict(Origin.of(study))) == ["study"]
    monkeypatch.setattr(origin, "paper_file", lambda _: shared)
    printed = origin.published("flaredtdg")
    monkeypatch.setattr(origin, "published", lambda _: printed.model_copy(update={"tables": {}}))
    assert now.changed(asdict(Origin.of(study))) == ["study"]


def test_a_kept_point_is_of_its_code_and_data(tmp_path, monkeypatch):
    """After a change of either it is evaluated again, and what an earlier code has kept is not taken."""
    one = Task(StudyPoint.of({"paper": "flaredtdg", "dataset": "soc_flickr"}), "count", "f", (), ("flaredtdg",))
    calls, keys = [], []
    monkeypatch.setattr(evaluation, "evaluate", lambda asked: calls.append(asked) or StudyResult(values={"n": len(calls)}))
    for code_now, data_now, n in (("c", "d", 1), ("c", "d", 1), ("c2", "d", 2), ("c2", "d2", 3), ("c", "d", 1)):
        monkeypatch.setattr(task, "point_origin", lambda *_, now=(code_now, data_now): now)
        assert evaluated([one], lambda _: None, 1, tmp_path)[0].values == {"n": n}
        keys.append(one.key)
    assert len(set(keys)) == 3


def test_points_of_experiments_run_their_testbed(monkeypatch):
    asked = []
    monkeypatch.setattr(origin, "code_digest", lambda *modules: asked.append(modules) or "")
    for axes, paper, hooks in (({"experiment": {"dataset": "events_small"}}, "", ()), ({"dataset": "a"}, "pgt-i", ("pgti",))):
        Task(StudyPoint.of({"paper": paper, **axes}), "sweep", "", (), hooks).key  # noqa: B018
    of_experiment, of_paper = (names[1:] for names in asked)
    assert of_experiment == (f"{origin.TESTBEDS}.experiments",)
    assert of_paper == (f"{origin.HOOKS}.pgti", f"{origin.TESTBEDS}.signals")
    assert all(code.path_of(name) for name in (*of_experiment, *of_paper))


def test_what_is_timed_is_evaluated_alone(monkeypatch):
    """Whatever the number of processes: the points that are trained, after all else, in this one."""
    swept = []

    def sweep(judge, tasks, take, workers=1, dask=None):
        swept.append((sorted(tasks), workers))
        for number in tasks:
            take(number, StudyResult())

    monkeypatch.setattr(evaluation, "sweep", sweep)
    tasks = [Task(StudyPoint(dataset=str(i)), runner, "", (), ()) for i, runner in enumerate(("train", "sweep", "train", "count"))]
    evaluated(tasks, lambda _: None, 4)
    assert swept == [([1, 3], 4), ([0, 2], 1)]
