"""`make gpu` without a GPU: what its parts import, how they are run, cut off and skipped, and what they refuse to call passed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from gpu import build, contracts, runner, sanitizer, wheels  # noqa: E402
from gpu.place import Place, sources  # noqa: E402
from gpu.record import CUT_OFF, FAILED, PASSED, Failed, NoDevice, Record  # noqa: E402

# On the machine that this is for, by distribution; what the parts import beyond it has to be carried.
PRESENT = {
    *("torch", "triton", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "psutil", "pyyaml", "jinja2", "markupsafe", "fsspec"),
    *("packaging", "networkx", "sympy", "mpmath", "filelock", "joblib", "threadpoolctl", "narwhals", "python-dateutil", "six", "pytz"),
    *("pygments", "markdown-it-py", "mdurl", "torch-geometric", "pip", "setuptools", "cuda-bindings", "cuda-pathfinder", "urllib3"),
    *("h5py", "matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "pillow", "pyparsing"),
    *("tqdm", "requests", "charset-normalizer", "certifi", "idna"),  # of torch-geometric
    *("importlib-metadata", "zipp", "lazy-importer"),  # of dask, below Python 3.12
}
ABSENT = ("gurobipy", "highspy", "dgl")
IMPORTED = """
import json, sys
from importlib import import_module
from importlib.metadata import packages_distributions

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from gpu.parts import PARTS
for part in PARTS.values():
    part.run()
for name in ("gpu.hubs", "chronoscale.harness.cli", "chronoscale.harness.cli.loop", "chronoscale.real_exec.worker"):
    import_module(name)
of = packages_distributions()
print(json.dumps(sorted({{name for top in {{name.partition(".")[0] for name in sys.modules}} for name in of.get(top, [])}})))
"""


def child(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "benchmarks")))
    return subprocess.run([sys.executable, "-c", code, *arguments], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def test_parts_import_what_is_there_or_carried():
    done = child(IMPORTED.format(absent=ABSENT))
    assert done.returncode == 0, done.stderr
    carried = {plain(name) for name in wheels.CARRIED}
    assert "pydantic" in carried
    assert {plain(name) for name in json.loads(done.stdout)} - PRESENT - carried - {"chronoscale"} == set()


def test_wheels_are_pinned_as_the_suite_is():
    lines = set((ROOT / "constraints.txt").read_text().splitlines())
    assert {re.sub("[-_]", "-", pin) for pin in wheels.pins()} <= {re.sub("[-_]", "-", line) for line in lines}
    assert not {plain(name) for name in ABSENT} & {plain(name) for name in wheels.CARRIED}


def test_make_gpu_installs_nothing():
    """The machine has no network: the target stands alone, and asks for the parts that are named."""
    command = ["make", "-n", "gpu", "PARTS=contracts,kernels", "OUT=there", "DEVICE=cpu"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # the suite's own make would be heard
    made = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True)
    (line,) = made.stdout.splitlines()
    assert line.split("-m gpu ")[1].split() == ["--out", "there", "--parts", "contracts,kernels", "--device", "cpu"]


ENTRY = "import sys; from gpu.parts import PARTS, Part; from fakes import LIMITS\nPARTS.clear()\n" + (
    "PARTS.update({name: Part(f'fake_{name}', minutes) for name, minutes in LIMITS.items()})\n"
    "from gpu.__main__ import main\nraise SystemExit(main())\n"
)
FAKES = {
    "build": "def run(place, record): pass",
    "slow": "import time\ndef run(place, record):\n record.add('rows', 1)\n time.sleep(60)",
    "wrong": "from gpu.record import Failed\ndef run(place, record): raise Failed('it is wrong')",
    "sound": "def run(place, record): record.put(found=float('nan'))",
}


@pytest.fixture
def faked(tmp_path, monkeypatch):
    """A place whose parts are fakes, in processes of their own."""
    limits = {name: 0.02 if name == "slow" else 1 for name in FAKES}
    (tmp_path / "fakes.py").write_text(f"LIMITS = {limits}")
    for name, code in FAKES.items():
        (tmp_path / f"fake_{name}.py").write_text(code)
    (tmp_path / "entry.py").write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(runner, "ENTRY", (str(tmp_path / "entry.py"),))
    made = {name: runner.PARTS["build"]._replace(minutes=minutes) for name, minutes in limits.items()}
    monkeypatch.setattr(runner, "PARTS", made)
    monkeypatch.setattr(runner, "write", lambda place: "")
    return Place(tmp_path / "out", "cpu", tmp_path / "work")


def states(place: Place) -> dict[str, str]:
    return {path.stem: Record.read(path)["status"] for path in place.out.glob("*.json")}


def test_a_part_that_is_cut_off_or_fails_stops_no_other(faked):
    assert runner.run(["slow", "wrong", "sound"], faked) == 1
    assert states(faked) == {"build": PASSED, "slow": CUT_OFF, "wrong": FAILED, "sound": PASSED}
    assert Record.read(faked.result("slow"))["rows"] == [1]
    assert Record.read(faked.result("wrong"))["why"] == "it is wrong"
    found = Record.read(faked.result("sound"))
    assert found["found"] is None and found["rehearsal"] is True and found["sources"] == sources() and found["minutes"] >= 0


def test_what_was_done_is_not_done_again(faked, tmp_path, capsys):
    """Several commands add up, also where each has a folder of its own for its results."""
    assert runner.run(["sound"], faked) == 0
    capsys.readouterr()
    later = Place(tmp_path / "later", "cpu", faked.work)
    assert runner.run(["sound"], later) == 0
    assert "sound: done before" in capsys.readouterr().out and states(later) == {"build": PASSED, "sound": PASSED}
    assert runner.run(["sound"], later, fresh=True) == 0
    assert "sound: done before" not in capsys.readouterr().out
    Record(later.result("sound"), **{**Record.read(later.result("sound")), "sources": "others"})
    assert runner.run(["sound"], later) == 0
    assert "sound: done before" not in capsys.readouterr().out


def test_nothing_runs_without_a_build(faked, tmp_path):
    (tmp_path / "fake_build.py").write_text(FAKES["wrong"])
    assert runner.run(["sound"], faked) == 1
    assert states(faked) == {"build": FAILED}


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
def test_without_a_gpu_a_part_says_so(tmp_path):
    asked = ["-m", "gpu", "--only", "kernels", "--out", str(tmp_path)]
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "benchmarks")))
    done = subprocess.run([sys.executable, *asked], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 3 and done.stderr.startswith("kernels: no device")
    assert Record.read(tmp_path / "kernels.json")["status"] == "no device"


def report(tmp_path: Path, *cases: str) -> list[contracts.Case]:
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return contracts.read(tmp_path / "report.xml")


def case(name: str, inner: str = "") -> str:
    return f'<testcase classname="tests.cuda_ext.test_x" name="{name}">{inner}</testcase>'


def test_a_suite_that_skips_the_device_does_not_pass(tmp_path):
    skipped = "<skipped message=\"backend 'cuda' is not available on this machine\"/>"
    sound = [case("test_a[reference-1]"), case("test_a[1-cuda]"), case("test_plain")]
    no_dgl = [case(f"test_dgl[{name}]", "<skipped message=\"could not import 'dgl'\"/>") for name in ("reference", "cuda")]
    assert contracts.complaints(report(tmp_path, *sound, *no_dgl), "cuda") == []
    assert contracts.held(report(tmp_path, *sound, *no_dgl), "cuda") == {"tests.cuda_ext.test_x.test_a": 1}
    (said,) = contracts.complaints(report(tmp_path, *sound, case("test_a[2-cuda]", skipped)), "cuda")
    assert said.startswith("1 skipped on cuda")
    (said,) = contracts.complaints(report(tmp_path, *sound, case("test_b[reference]")), "cuda")
    assert said == "1 never passed on cuda: tests.cuda_ext.test_x.test_b"
    (said,) = contracts.complaints(report(tmp_path, *sound, case("test_a[2-cuda]", '<failure message="off"/>')), "cuda")
    assert said.startswith("1 failed")
    assert contracts.complaints(report(tmp_path, case("test_plain")), "cuda")


def test_what_the_sanitizer_says_is_heard():
    ran = "aggregate 511 x 1: error 1e-7\n"
    assert sanitizer.complaint(0, ran + "========= ERROR SUMMARY: 0 errors", True) == ""
    assert sanitizer.complaint(0, ran + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", True) == ""
    assert sanitizer.complaint(9, ran + "========= ERROR SUMMARY: 12 errors", True) == "12 errors"
    assert sanitizer.complaint(0, ran + "========= ERROR SUMMARY: 10 errors", True) == "10 errors"
    assert "no summary" in sanitizer.complaint(0, ran, True)
    assert sanitizer.complaint(1, ran + "========= ERROR SUMMARY: 0 errors", True).startswith("code 1")
    assert sanitizer.complaint(0, "========= ERROR SUMMARY: 0 errors", True)  # and no case ran
    assert sanitizer.complaint(124, ran, True).startswith("cut off")


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The part, with commands that are counted and leave libraries behind, and what the built libraries are said to load as."""
    place = Place(tmp_path / "out", "cuda", tmp_path / "work")
    ran: list[str] = []
    loaded = {"backends": ["reference", "cpu", "cuda"], "device": True, "libraries": {}}

    def output(record, command, place):
        ran.append(command[0] if command[0] == "cmake" else "loaded")
        if command[1] == "--build":
            for name in build.LIBRARIES:
                Path(command[2]).mkdir(parents=True, exist_ok=True)
                (Path(command[2]) / name).write_text("built")
        return json.dumps(loaded)

    monkeypatch.setattr(build, "_output", output)
    monkeypatch.setattr(build, "_packages", lambda place: [])
    return place, ran, loaded


def test_the_build_does_not_pass_without_the_backend(built):
    place, _, loaded = built
    record = Record(place.result("build"))
    build.run(place, record)
    assert record.data["compiled"] is True and (place.libraries / "libchronoscale_cuda.so").exists()
    loaded["backends"] = ["reference", "cpu"]
    with pytest.raises(Failed, match="backend 'cuda' is not available, only reference, cpu"):
        build.run(place, record)
    loaded["device"] = False
    with pytest.raises(NoDevice, match="both libraries are built"):
        build.run(place, record)
    build.run(Place(place.out, "cpu", place.work), record)


def test_libraries_are_compiled_once_for_a_device_and_its_sources(built, monkeypatch):
    place, ran, _ = built
    record = Record(place.result("build"))
    for architecture, compiled in (("9.0", True), ("9.0", False), ("8.0", True)):
        monkeypatch.setattr(build, "gpu", lambda architecture=architecture: {"compute_cap": architecture})
        ran.clear()
        build.run(place, record)
        assert record.data["compiled"] is compiled and ran.count("cmake") == 2 * compiled
    monkeypatch.setattr(build, "digest", lambda *names: "others")
    build.run(place, record)
    assert record.data["compiled"] is True


def test_without_wheels_the_build_says_what_fills_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "WHEELS", tmp_path / ".gpu-wheels")
    with pytest.raises(Failed, match=r"\.gpu-wheels holds no wheels: `make gpu-wheels`"):
        build.run(Place(tmp_path / "out", "cpu", tmp_path / "work"), Record(tmp_path / "build.json"))
