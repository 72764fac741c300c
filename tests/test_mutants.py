"""The recorded faults fit the files and tests that they name; the runner finds places, chooses, and goes on as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
from all_faults import load  # noqa: E402 (a folder that is no package)
from anchor import Unfit  # noqa: E402
from fault import Fault  # noqa: E402
from judging import batches, judge_all  # noqa: E402
from results import Result, append, counted, key_of, read_results  # noqa: E402
from selection import changed, drawn  # noqa: E402

CODE = '''
LIMIT = 3


@wraps(LIMIT + 1)
def outer(a, b=1):
    """Words."""
    def inner(c):
        return a * b
    first = a * b
    second = call(  # a comment
        "one",
        (first),
    )
    third = a + 1, a + 1
    return first


class Box:
    size = 2 * LIMIT

    def put(self, x):
        if x:
            self.x = f"{x + 1}"
            self.full = True
        return x
'''
KERNEL = """
struct Room { int size = 3; };
template <class T> void fill(T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 1;  // all
}
static int count(int n) {
  auto f = [&](int i) { return i + 1; };
  for (int i = 0; i < n; ++i) f(i);
  return n;
}
"""


def fault(find: str, put: str, scope: str = "", nth: int = 0, file: str = "one.py") -> Fault:
    return Fault("name", file, scope, find, put, "wrong", "tests/test_one.py", nth)


@cache
def defined(file: str) -> frozenset[str]:
    path = ROOT / file
    return frozenset(re.findall(r"^def (\w+)", path.read_text(), re.MULTILINE)) if path.is_file() else frozenset()


@pytest.fixture(scope="module")
def faults():
    return load([])


def test_every_fault_fits_its_file_and_its_tests_exist(faults):
    text = cache(lambda file: (ROOT / "src" / "chronoscale" / file).read_text())
    wrong = []
    for each in faults:
        try:
            each.place(text(each.file))
        except (Unfit, OSError) as reason:
            wrong.append(f"{each.name}: {reason}")
        for test in each.tests.split():
            file, _, name = test.partition("::")
            if not (ROOT / file).exists() or (name and name.partition("[")[0] not in defined(file)):
                wrong.append(f"{each.name}: no test {test}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("scope", "find", "put", "line"),
    [
        ("outer", "a * b", "a + b", "    first = (a + b)"),
        ("outer.inner", "a*b", "a", "        return (a)"),
        ("outer", "LIMIT + 1", "LIMIT", "@wraps((LIMIT))"),
        ("Box", "2 * LIMIT", "2", "    size = (2)"),
        ("Box.put", 'f"{x + 1}"', "''", "            self.x = ('')"),
        ("Box.put", "_.full = True", "", "            "),
        ("", "LIMIT = 3", "LIMIT = 4\nOTHER = 5", "LIMIT = 4"),
        ("Box.put", "self.full = True", "self.full = 1\nself.y = 2", "            self.y = 2"),
    ],
)
def test_an_expression_or_statement_is_found_in_its_function(scope, find, put, line):
    seeded = fault(find, put, scope).seeded(CODE)
    assert line in seeded.split("\n") and line not in CODE.split("\n")


def test_layout_quotes_comments_and_parentheses_do_not_matter():
    seeded = fault("call('one', first)", "first", "outer").seeded(CODE)
    assert seeded == CODE.replace('call(  # a comment\n        "one",\n        (first),\n    )', "(first)")


def test_equal_places_are_told_apart_by_their_number():
    assert fault("a + 1", "a", "outer", nth=2).seeded(CODE) == CODE.replace("a + 1, a + 1", "a + 1, (a)")


@pytest.mark.parametrize(
    ("find", "put", "scope", "nth", "reason"),
    [
        ("a + 1", "a", "outer", 0, "2 places"),
        ("a + 1", "a", "outer", 3, "2 places"),
        ("a - 1", "a", "outer", 0, "0 places"),
        ("x + 1", "x", "Box.put", 0, "0 places"),
        ("a * b", "( a *b )", "outer", 0, "changes nothing"),
        ("a * b", "a +", "outer", 0, "no Python"),
        ("a * b", "a", "inner", 0, "no function or class 'inner'"),
    ],
)
def test_what_does_not_fit_is_refused(find, put, scope, nth, reason):
    with pytest.raises(Unfit, match=reason):
        fault(find, put, scope, nth).seeded(CODE)


def test_a_change_that_is_no_python_where_it_stands_is_refused():
    with pytest.raises(Unfit, match="with the fault it is no Python"):
        fault("first", "a + 1", "outer", nth=1).seeded(CODE)


def test_tokens_are_found_in_their_function_whatever_stands_between():
    seeded = fault("out[ i ]=1; }", "out[i] = 2; }", "fill", file="one.cpp").seeded(KERNEL)
    assert seeded == KERNEL.replace("out[i] = 1;  // all\n}", "out[i] = 2; }")
    assert "i + 2" in fault("i + 1", "i + 2", "count", file="one.cpp").seeded(KERNEL)
    assert "size = 4" in fault("size = 3", "size = 4", "Room", file="one.h").seeded(KERNEL)
    with pytest.raises(Unfit, match="2 places"):
        fault("i < n", "i <= n", file="one.cpp").seeded(KERNEL)
    with pytest.raises(Unfit, match="no function or type 'empty'"):
        fault("i < n", "i <= n", "empty", file="one.cpp").seeded(KERNEL)
    with pytest.raises(Unfit, match="changes nothing"):
        fault("i < n", "i<n // less", "fill", file="one.cpp").seeded(KERNEL)


def test_changed_takes_faults_of_changed_sources_and_tests(tmp_path):
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    (tmp_path / "src" / "chronoscale").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    sources = [Path(f"src/chronoscale/{name}.py") for name in "abc"]
    for path in sources:
        (tmp_path / path).write_text("1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / sources[0]).write_text("2\n")
    (tmp_path / "tests" / "test_b.py").write_text("new\n")
    faults = [Fault(name, f"{name}.py", "", "1", "2", "wrong", f"tests/test_{name}.py::test_it") for name in "abc"]
    assert [each.name for each in changed(faults, tmp_path, "HEAD")] == ["a", "b"]
    with pytest.raises(Unfit, match="git diff"):
        changed(faults, tmp_path, "nowhere")


def test_an_order_follows_from_its_text():
    faults = [Fault(str(at), "a.py", "", "1", "2", "wrong", "tests") for at in range(20)]
    assert drawn(faults, "x") == drawn(faults[::-1], "x") != drawn(faults, "y")
    assert sorted(map(int, (each.name for each in drawn(faults, "x")))) == list(range(20))
    assert [each for batch in batches(faults, 7) for each in batch] == faults


def test_results_are_kept_by_fingerprint(tmp_path):
    one = fault("1", "2")
    keys = {key_of(one, tree, fast=fast) for tree in ("a", "b") for fast in (True, False)}
    assert len(keys | {key_of(fault("1", "3"), "a", fast=True)}) == 5
    out = tmp_path / "out"
    results = [Result("x", "noticed", "test", fast, 1.0, 1.0, key) for fast, key in ((True, "k"), (False, "l"))]
    for result in results:
        append(out, result)
    out.write_text(out.read_text() + '{"fault": "cut')
    assert read_results(out) == {"k": results[0], "l": results[1]}
    assert counted(results, 5) == "2 of 2 noticed (fast tier: 1); 3 not judged"


@pytest.mark.slow
def test_every_case_that_a_fault_names_is_there():
    """Names of cases change with their parameters."""
    named = {test for each in load([]) for test in each.tests.split() if "[" in test}
    files = sorted({test.partition("::")[0] for test in named})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--no-header", *files], cwd=ROOT, capture_output=True, text=True
    )
    missing = named - set(done.stdout.split("\n"))
    assert done.returncode == 0 and named and not missing, missing or done.stderr


def test_a_spent_budget_begins_no_fault():
    def refuse(result: Result) -> None:
        raise AssertionError(result)

    assert judge_all([fault("1", "2")], [None], {"name": "k"}, refuse, fast=True, minutes=0, sound=True) == []
