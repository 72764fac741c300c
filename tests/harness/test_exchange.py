"""Traces that leave and enter by the command line."""

import json
import py_compile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import command, one_line
from kineto_trace import copy, save

from chronoscale.harness.runs.run_folder import Run
from chronoscale.strategies.formats.chakra import reader as chakra_reader
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


def exported(capsys: pytest.CaptureFixture[str], run: str, form: str) -> list[Path]:
    capsys.readouterr()
    command("trace", run, "--format", form, "--out", form, "--json")
    return [Path(path) for path in json.loads(capsys.readouterr().out)]


@pytest.mark.slow
def test_traces_of_a_run_in_every_format(experiment, inline, capsys):
    """Executed ones and simulated ones: Chakra's are read again, SimGrid's parse and compile, Perfetto's are JSON."""
    file = experiment(strategies=["psg"], gpus=[1, 2])
    command("bench", file)
    command("simulate", file)
    for run in ("runs/small-bench-1", "runs/small-simulate-1"):
        paths = exported(capsys, run, "chakra")
        for folder in {path.parent for path in paths}:
            found = chakra_reader.read(sorted(folder.glob("*.et")))
            kept = Run(Path(run)).folder
            piece = kept / folder.name if "sim-" in folder.name else kept / "ranks-1"
            name = folder.name.removesuffix("-ranks-1")
            files = ("schedule.parquet", "trace.parquet") if "sim-" in folder.name else (f"{name}.schedule.parquet", f"{name}-r0.parquet")
            assert (found.schedule.op == Schedule.load(piece / files[0]).op).all()
            assert (found.trace.end_ns == Trace.load(piece / files[1]).end_ns).all()
            assert json.loads((folder / "comm_groups.json").read_text()) == ({"1": [0, 1]} if "00002" in folder.name else {})
        for path in exported(capsys, run, "simgrid"):
            if path.suffix == ".xml":
                hosts = list(ElementTree.parse(path).getroot().iter("host"))
                assert len(hosts) == (2 if "00002" in str(path) else 1)
                assert {host.get("core") for host in hosts} == {"1" if "bench" in run else "6"}  # a CPU rank's FIFOs, and a GPU's
            elif path.suffix == ".py":
                py_compile.compile(str(path), doraise=True)
        assert len(exported(capsys, run, "perfetto")) == (1 if "bench" in run else 2)
    command("trace", "runs/small-bench-1", "--format", "nsight", expect=2)
    assert one_line(capsys) == "error: --format: unknown format 'nsight'; valid: chakra, perfetto, simgrid"


def test_a_recorded_trace_is_replayed(experiment, capsys):
    """On the cluster that it was simulated on it takes what it took; slower links change collectives alone."""
    command("simulate", experiment(strategies=["psg"], gpus=[2]))
    files = [path for path in exported(capsys, "runs/small-simulate-1", "chakra") if path.suffix == ".et"]
    found = {}
    for cluster in ("h200", "polaris"):
        command("replay", *files, "--cluster", cluster, "--out", cluster, "--json")
        found[cluster] = {row["op"]: row for row in json.loads(capsys.readouterr().out)}
    assert all(row["change_pct"] == pytest.approx(0, abs=1e-9) for op, row in found["h200"].items() if op != "TOTAL")
    assert abs(found["h200"]["TOTAL"]["change_pct"]) < 1 and found["polaris"]["ALLREDUCE"]["change_pct"] != 0
    trace, schedule = Trace.load(Path("polaris/trace.parquet")), Schedule.load(Path("polaris/schedule.parquet"))
    assert len(trace) == len(schedule) and "recorded on" in trace.device and Path("polaris/timeline.json").exists()
    for arguments, said in (
        ((files[0],), f"{files[0]}: one of 2 ranks of 'psg', and 1 files are named"),
        ((*files, "--cluster", "h2000"), "unknown cluster 'h2000'; did you mean 'h200'?"),
        (("none.et",), "none.et: no such file, a Chakra trace is expected"),
    ):
        command("replay", *arguments, expect=2)
        assert said in one_line(capsys)


def test_a_profile_of_another_program_gives_costs_of_its_copies(experiment, capsys):
    sizes = [1 << power for power in range(12, 24)]
    events = [copy("HtoD (Pinned -> Device)", 100.0 * i, 2 + size / 25e3, size) for i, size in enumerate(sizes)]
    save(Path("step.json"), *events, gpu="NVIDIA H200")
    command("kineto", "step.json", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["count"]) for row in found["names"]] == [("Memcpy HtoD (Pinned -> Device)", 12)]
    assert [(row["op"], row["samples"]) for row in found["fits"]] == [("H2D", 12)] and found["said"] == []
    assert (
        json.loads(Path("kineto/costs.json").read_text())["device"] == "NVIDIA H200" and len(Trace.load(Path("kineto/step.parquet"))) == 12
    )
    save(Path("few.json"), *events[:3])
    command("kineto", "few.json", "--out", "few")
    said = capsys.readouterr().err
    assert (
        "too few samples for a curve: H2D at width 0 (3)" in said and "no samples for a fit" in said and not Path("few/costs.json").exists()
    )
    for arguments, line in (
        (("none.json",), "none.json: no such file, a trace of torch.profiler is expected"),
        (("step.json", "--schedule", "none.parquet"), "none.parquet: no such file, a schedule is expected"),
    ):
        command("kineto", *arguments, expect=2)
        assert line in one_line(capsys)
