"""`make gpu` without a GPU: what its parts import and carry, and what they refuse to call passed; how they are run: test_gpu_runner.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import forked
import psutil
import pytest
import torch
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from core import nvidia  # noqa: E402
from gpu import build, contracts, families, sanitizer, wheels  # noqa: E402
from gpu import child as children  # noqa: E402
from gpu.child import Failed, NoDevice  # noqa: E402
from gpu.parts import PARTS  # noqa: E402
from gpu.place import Place  # noqa: E402

# On the machine that this is for, by distribution; what the parts import beyond it has to be carried.
PRESENT = {
    *("torch", "triton", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "psutil", "pyyaml", "jinja2", "markupsafe", "fsspec"),
    *("packaging", "networkx", "sympy", "mpmath", "filelock", "joblib", "threadpoolctl", "narwhals", "python-dateutil", "six", "pytz"),
    *("pygments", "markdown-it-py", "mdurl", "torch-geometric", "pip", "setuptools", "cuda-bindings", "cuda-pathfinder", "urllib3"),
    *("h5py", "matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "pillow", "pyparsing"),
    "pytest",
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
for command in (command for part in PARTS.values() for command in part.commands):
    import_module(command[1] if command[0] == "-m" else f"subjects.{{command[1]}}")
for name in ("chronoscale.harness.cli", "chronoscale.harness.cli.loop", "chronoscale.real_exec.worker"):
    import_module(name)
of = packages_distributions()
print(json.dumps(sorted({{name for top in {{name.partition(".")[0] for name in sys.modules}} for name in of.get(top, [])}})))
"""


def child(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "benchmarks")))
    return subprocess.run([sys.executable, "-c", code, *arguments], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.slow
def test_parts_import_what_is_there_or_carried():
    done = child(IMPORTED.format(absent=ABSENT))
    assert done.returncode == 0, done.stderr
    carried = {plain(name) for name in wheels.CARRIED}
    assert "pydantic" in carried
    assert {plain(name) for name in json.loads(done.stdout)} - PRESENT - carried - {"chronoscale"} == set()


def test_what_is_carried_needs_nothing_that_is_not_there():
    """Of the versions that are carried, which are installed here: all that they require on the machine that they are for."""
    there = {"python_version": wheels.PYTHON, "python_full_version": f"{wheels.PYTHON}.1", "platform_machine": "x86_64", "extra": ""}
    carried, missing = {plain(name) for name in wheels.CARRIED}, set()
    for pin in wheels.pins():
        name, _, pinned = pin.partition("==")
        assert version(name) == pinned
        needed = [one for one in map(Requirement, requires(name) or []) if one.marker is None or one.marker.evaluate(there)]
        missing |= {f"{name} needs {one.name}" for one in needed if plain(one.name) not in carried | PRESENT}
    assert not missing
    assert not {plain(name) for name in ABSENT} & {plain(name) for name in wheels.CARRIED}


def test_make_gpu_installs_nothing():
    """The machine has no network: the target stands alone, and asks for the parts that are named."""
    command = ["make", "-n", "gpu", "PARTS=contracts,kernels", "OUT=there", "DEVICE=cpu", "MINUTES=9.5"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # the suite's own make would be heard
    made = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True)
    (line,) = made.stdout.splitlines()
    assert line.startswith("env PYTHONPATH=benchmarks ")  # no shell, which would keep SIGTERM to itself
    assert line.split("-m gpu ")[1].split() == ["--out", "there", "--parts", "contracts,kernels", "--minutes", "9.5", "--device", "cpu"]


def test_documented_commands_end_in_time():
    """Those for a machine that gives ten minutes at a time: the limits of their parts, build included, within the minutes they name."""
    block = (ROOT / "docs/gpu.md").read_text().split("## On a machine that gives ten minutes at a time")[1].split("```")[1]
    arguments = [dict(word.split("=") for word in line.partition("#")[0].split()[2:]) for line in block.strip().splitlines()]
    named = [name for one in arguments for name in one["PARTS"].split(",")]
    assert sorted(named) == sorted(set(PARTS) - {"build"})
    for one in arguments:
        names = {*one["PARTS"].split(",")}
        limits = [PARTS[name].minutes for name in names | ({"build"} if any(PARTS[name].needs_build for name in names) else set())]
        assert sum(limits) <= float(one["MINUTES"]) < 10, one


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
def test_without_a_gpu_a_subject_says_so():
    done = forked.run([str(ROOT / "benchmarks"), "slots", "--quick", "--device", "cuda"])
    assert done.returncode == 2 and done.stderr == "benchmarks: no CUDA device: torch.cuda.is_available() is false\n"


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
    (complaint,) = contracts.complaints(report(tmp_path, *sound, case("test_a[2-cuda]", skipped)), "cuda")
    assert complaint.startswith("1 skipped on cuda")
    skipped_on_cuda = f'<skipped message="{contracts.CUDA_ALONE}"/>'
    assert contracts.complaints(report(tmp_path, *sound, case("test_a[2-cuda]", skipped_on_cuda)), "cuda")
    assert (
        contracts.complaints(
            report(tmp_path, case("test_a[reference]"), case("test_a[cpu]"), case("test_a[2-cpu]", skipped_on_cuda)), "cpu"
        )
        == []
    )
    (complaint,) = contracts.complaints(report(tmp_path, *sound, case("test_b[reference]")), "cuda")
    assert complaint == "1 never passed on cuda: tests.cuda_ext.test_x.test_b"
    (complaint,) = contracts.complaints(report(tmp_path, *sound, case("test_a[2-cuda]", '<failure message="off"/>')), "cuda")
    assert complaint.startswith("1 failed")
    assert contracts.complaints(report(tmp_path, case("test_plain")), "cuda")


@pytest.mark.slow
def test_the_suite_runs_without_pytest_benchmark(tmp_path):
    """Nothing of the suite needs pytest-benchmark, which the machine of `make gpu` lacks."""
    command = [*contracts.PYTEST, "-p", "no:benchmark", "--collect-only", *contracts.SUITE]
    code, output = children.run(command, {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'benchmarks'}"}, tmp_path)
    assert code == 0 and "[reference" in output and "[emulated" not in output, output


def test_the_sanitizer_is_limited_to_our_kernels(tmp_path, monkeypatch):
    """To every one that the sources have, under the names that they have in the library; by the option that a release has."""
    sources = "".join(path.read_text() for path in (ROOT / "src/chronoscale/cuda_ext/csrc/cuda").iterdir())
    assert sources.count("__global__") >= 6
    named = [f"{len(name)}{name}" for name in re.findall(r"\b(\w+_kernel)\b(?=[(])", sources)]
    names = sanitizer.kernels(b"_ZN3" + "_".join(named).encode())
    assert names == sorted(set(named)) and len(names) == sources.count("__global__")
    with pytest.raises(Failed, match=r"no kernel named 11join_kernel, .*"):
        sanitizer.kernels(b"_ZN3gather")
    both = ["--report-api-errors", "no", "--kernel-name", "kns=11join_kernel"]
    assert sanitizer.chosen("  --kernel-name arg\n  --kernel-name-exclude arg\n  --report-api-errors arg", names[:1]) == both
    assert sanitizer.chosen("--kernel-regex arg", names[:1]) == ["--kernel-regex", "kns=11join_kernel"]
    assert sanitizer.chosen("--kernel-name-exclude arg", names) == []


@pytest.mark.slow
def test_a_command_that_is_cut_off_leaves_nobody_behind(tmp_path):
    code, output = children.run(["sh", "-c", "echo begun; sleep 77.25 & wait"], None, tmp_path, seconds=1)
    assert (code, output) == (children.CUT_OFF, "begun\n")
    assert not [one for one in psutil.process_iter(["cmdline"]) if "77.25" in (one.info["cmdline"] or [])]


def test_the_driver_is_read_whatever_a_device_is_called(monkeypatch):
    output = "NVIDIA H100, 80GB, 580.1, 9.0, 81559 MiB, 1980 MHz, 2619 MHz, 700.00 W, 31\n"
    monkeypatch.setattr(nvidia.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, output))
    device = nvidia.smi()
    assert device["name"] == "NVIDIA H100, 80GB" and device["compute_cap"] == "9.0" and device["temperature.gpu"] == "31"
    output = "No devices were found\n"
    assert nvidia.smi() == {}

    def hangs(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(nvidia.subprocess, "run", hangs)
    assert nvidia.smi() == {}


def test_what_the_sanitizer_says_is_heard():
    ran = "37 passed in 3.00s\n"
    assert sanitizer.complaint(0, ran + "========= ERROR SUMMARY: 0 errors", True) == ""
    assert sanitizer.complaint(0, ran + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", True) == ""
    assert sanitizer.complaint(9, ran + "========= ERROR SUMMARY: 12 errors", True) == "12 errors"
    assert sanitizer.complaint(0, ran + "========= ERROR SUMMARY: 10 errors", True) == "10 errors"
    assert "no summary" in sanitizer.complaint(0, ran, True)
    assert sanitizer.complaint(1, ran + "========= ERROR SUMMARY: 0 errors", True).startswith("code 1")
    assert sanitizer.complaint(0, "========= ERROR SUMMARY: 0 errors", True)  # and no test ran
    assert sanitizer.complaint(124, ran, True).startswith("cut off")


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The part, with commands that are counted and leave libraries behind, and what the built libraries are said to load as."""
    place = Place(tmp_path / "out", "cuda", tmp_path / "work")
    ran: list[str] = []
    loaded = {"backends": ["reference", "cpu", "cuda"], "cuda is available": True, "device": "a GPU"}

    def output(command, environment=None):
        if "-S" in command:
            loaded["compiler"] = environment.get("CUDACXX")
        if "compile" in command:
            if loaded.get("refused"):
                raise Failed("c++ does not compile the operators")
            return ""
        ran.append(command[0] if command[0] == "cmake" else "loaded")
        if command[1] == "--build":
            for name in build.LIBRARIES:
                Path(command[2]).mkdir(parents=True, exist_ok=True)
                (Path(command[2]) / name).write_text("built")
        return f"a plugin says something\n{json.dumps(loaded)}\n"

    monkeypatch.setattr(build, "_output", output)
    monkeypatch.setattr(build, "_unpack", lambda place: [])
    return place, ran, loaded


def result(place: Place) -> dict[str, object]:
    """What the part wrote, once it has run."""
    build.run(place)
    return json.loads((place.out / "build.json").read_text())


def test_the_build_does_not_pass_without_the_backend(built):
    place, _, loaded = built
    record = result(place)
    assert record["compiled"] is True and (place.libraries / "libchronoscale_cuda.so").exists()
    assert record["operators"] == "c++" and record["device"] == "a GPU"
    loaded["refused"] = True
    assert result(place)["operators"] == "python: c++ does not compile the operators"
    loaded["backends"] = ["reference", "cpu"]
    with pytest.raises(Failed, match="backend 'cuda' is not available, only reference, cpu"):
        build.run(place)
    loaded["cuda is available"] = False
    with pytest.raises(NoDevice, match="both libraries are built"):
        build.run(place)
    build.run(Place(place.out, "cpu", place.work))


def test_libraries_are_compiled_once_for_a_device_and_its_sources(built, monkeypatch):
    place, ran, _ = built
    for architecture, compiled in (("9.0", True), ("9.0", False), ("8.0", True)):
        monkeypatch.setattr(build, "smi", lambda architecture=architecture: {"compute_cap": architecture})
        ran.clear()
        assert result(place)["compiled"] is compiled and ran.count("cmake") == 2 * compiled
    monkeypatch.setattr(build, "digest", lambda *names: "others")
    assert result(place)["compiled"] is True


def test_a_compiler_that_is_not_on_the_path_is_found(built, monkeypatch, tmp_path):
    """Where the toolkit is installed by default; one that the user names is kept to."""
    place, _, loaded = built
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").write_text("#!/bin/sh")
    (tmp_path / "bin/nvcc").chmod(0o755)
    monkeypatch.setattr(nvidia, "TOOLKIT", str(tmp_path / "bin"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDACXX", raising=False)
    build.run(place)
    assert loaded["compiler"] == str(tmp_path / "bin/nvcc")
    monkeypatch.setenv("CUDACXX", "mine")
    monkeypatch.setattr(build, "digest", lambda *names: "others")
    build.run(place)
    assert loaded["compiler"] == "mine"


def test_without_wheels_the_build_says_what_fills_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "WHEELS", tmp_path / ".gpu-wheels")
    with pytest.raises(Failed, match=r"\.gpu-wheels holds no wheels: `make gpu-wheels`"):
        build.run(Place(tmp_path / "out", "cpu", tmp_path / "work"))


def test_a_profile_that_says_nothing_of_a_strategy_fails_the_part():
    rows = [{"strategy": "psg", "ranks": 8, "epoch_s": 0.5, "sources": "fitted"}, {"strategy": "blad", "ranks": 8, "epoch_s": None}]
    families.require_epochs(rows, ["psg"])
    with pytest.raises(Failed, match="the profile says nothing of blad on 8 GPUs"):
        families.require_epochs(rows, ["psg", "blad"])


@pytest.mark.slow
@pytest.mark.parametrize("part", ["snapshots", "windows", "streams", "signals"])
def test_a_family_is_profiled_and_validated(monkeypatch, tmp_path, part, capsys):
    """As in a rehearsal: each operation of each strategy is predicted by the costs that the part fits."""
    monkeypatch.setattr(Place, "environment", lambda self: dict(os.environ))
    place = Place(tmp_path / "out" / part, "cpu", tmp_path / "work")
    place.out.mkdir(parents=True)
    families.profiled(place, part)
    strategies = {*families.EXPERIMENTS[part]["strategies"]}
    validated = json.loads((place.out / "validate.json").read_text())
    assert {row["strategy"] for row in validated} == strategies
    assert all(row["predicted_ms"] > 0 for row in validated if row["op"] == "ITERATION")
    (model,) = place.out.glob(f"*_{part}_x1.json")
    assert json.loads(model.read_text())["device"]
    assert capsys.readouterr().out.count("| ITERATION |") == len(strategies)
    if part == "snapshots":
        monkeypatch.setitem(families.EXPERIMENTS["figure15"]["rehearsal"], "gpus", [1])
        figure = Place(tmp_path / "out" / "figure15", "cpu", tmp_path / "work")
        figure.out.mkdir()
        families.figure15(figure)
        assert (figure.out / "profile.json").exists()
