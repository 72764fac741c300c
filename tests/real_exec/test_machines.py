"""Machines as network namespaces under torchrun: what they learn is what one machine does, and how they fail."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from machine_cases import COMMON, FAMILIES, SIGNALS, SNAPSHOTS, STREAMS, alone, begin, learnt, losses_of, outputs
from namespaces import DAY_S, Machines, machines, permitted

from chronoscale.strategies.trace import Trace

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not permitted(), reason="network namespaces need root, and `ip netns`")]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("command", "ranks"), [("validate", [2, 2]), ("train", [2, 1, 1]), ("compare", [2, 2])])
def test_machines_learn_what_one_machine_does(tmp_path: Path, family: str, command: str, ranks: list[int]) -> None:
    """To the bit, though the others have no experiment, no data, and clocks that are days apart."""
    experiment, strategies = FAMILIES[family]
    experiment = {**COMMON, **experiment, "strategies": strategies[-1:] if command == "train" else strategies}
    expected = alone(tmp_path, experiment, command)
    with machines(len(ranks), tmp_path) as made:
        started = begin(made, experiment, command, ranks)
        said = outputs(started)
    assert [process.returncode for process in started] == [0] * len(ranks), said
    assert learnt(tmp_path / "node0") == expected and len(expected) >= 2
    assert not any(learnt(tmp_path / f"node{node}") for node in range(1, len(ranks)))
    traces = [Trace.load(file) for folder in ("ranks-4", "epochs") for file in (tmp_path / "node0").rglob(f"{folder}/*[0-9].parquet")]
    assert traces and all(0 < trace.clock_ns < 1e9 and trace.span_ns < DAY_S * 1e9 for trace in traces)


def attending(made: Machines, node: int) -> int:
    """Process id of a machine's process that torchrun has started."""
    for pid in made.pids(node):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"chronoscale" in words and b"torch.distributed.run" not in words:
            return pid
    raise ProcessLookupError


def end_machine(made: Machines) -> None:
    for pid in made.pids(1):
        os.kill(pid, signal.SIGKILL)


def stop_rank(made: Machines) -> None:
    os.kill(made.rank_process(1, 20), signal.SIGSTOP)


LOST = "error: rank 1 on node1 has not been heard of for 3"


@pytest.mark.parametrize(
    ("fault", "said", "said_there"),
    [
        (end_machine, LOST, ""),
        (lambda made: os.kill(attending(made, 1), signal.SIGKILL), LOST, ""),
        (lambda made: made.cut(1), LOST, "error: rank 0 at 10.97.0.1:29517 has not been heard of for 3"),
        (stop_rank, "error: 'train' was ended: rank 1 has not moved for 10 s, it is stopped,", ""),
    ],
)
def test_a_machine_that_is_lost_is_named_and_training_goes_on_after_it(
    tmp_path: Path, fault: Callable[[Machines], None], said: str, said_there: str
) -> None:
    """Within a minute, everywhere, nothing is left, and the same command ends where one that nothing happened to does: memory, too."""
    experiment = {**COMMON, **STREAMS, "ranks": [2], "strategies": ["memshare"], "epochs": 12, "hang_after": 10}
    expected = alone(tmp_path, experiment, "train")
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1])
        until = time.monotonic() + 120
        while not list(made.home(0).rglob("epochs/000001.json")) and time.monotonic() < until:
            time.sleep(0.05)
        begun = time.monotonic()
        fault(made)
        lines = outputs(started, 120)
        assert time.monotonic() - begun < 60
        assert said in lines[0] and "epochs are kept, the same command goes on after them" in lines[0]
        assert said_there in lines[1]
        assert not made.pids(0) and not made.pids(1)
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1])
        lines = outputs(started)
    assert [process.returncode for process in started] == [0, 0], lines
    assert "taking up runs/exp-train-1, which was left incomplete" in lines[0]
    assert learnt(tmp_path / "node0") == expected


@pytest.mark.parametrize(("family", "name"), [(SNAPSHOTS, "real-g+"), (SIGNALS, "dist-index"), (STREAMS, "tgl")])
def test_an_elastic_training_goes_on_with_the_machines_that_are_left(tmp_path: Path, family: dict[str, Any], name: str) -> None:
    experiment = {**COMMON, **family, "strategies": [name], "epochs": 8}
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1], "--elastic", "1:4")
        until = time.monotonic() + 120
        while not list(made.home(0).rglob("epochs/000001.json")) and time.monotonic() < until:
            time.sleep(0.05)
        end_machine(made)
        outputs(started, 120)
    before = len(list((tmp_path / "node0").rglob("epochs/*.json")))
    with machines(1, tmp_path) as made:
        (said,) = outputs(begin(made, experiment, "train", [1], "--elastic", "1:4"))
    assert "taking up runs/exp-train-1" in said and f"Epochs 0..{before - 1} on 2 ranks, {before}..7 on 1 rank:" in said
    assert len(list((tmp_path / "node0").rglob("epochs/*.json"))) == 8


@pytest.mark.parametrize("node", [0, 1])
def test_a_full_disk_is_one_line_on_either_machine(tmp_path: Path, node: int) -> None:
    experiment = {**COMMON, **SNAPSHOTS, "ranks": [2], "strategies": ["psg"], "epochs": 2000}
    with machines(2, tmp_path) as made:
        full = made.home(1) / "tmp" if node else made.home(0)
        full.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", full], check=True)
        try:
            lines = outputs(begin(made, experiment, "train", [1, 1]))
            assert not made.pids(0) and not made.pids(1)
        finally:
            subprocess.run(["umount", full], check=True)
    assert "the disk is full; free some space and give the same command again" in lines[0]
    assert lines[0].count("error:") == 1 and ("(on node1)" in lines[0]) == bool(node)


TWO_STRATEGIES = {
    "dataset": {"name": "growth_small"},
    "model": {"name": "wd-gcn", "hidden": 4},
    "strategies": ["psg", "real-g+"],
    "costs": "datasheet",  # the same plan of real-g+ in both runs, whatever is measured
    "ranks": [2],
    "repeats": 1,
    "device": "cpu",
}


DDP = {
    "dataset": {"name": "traffic_small"},
    "model": {"name": "pgt-dcrnn", "hidden": 4},
    "training": {"window": 4, "horizon": 3, "batches": 8},
    "strategies": ["ddp"],
    "ranks": [2],
    "repeats": 2,
    "device": "cpu",
}


@pytest.mark.parametrize("experiment", [TWO_STRATEGIES, DDP], ids=["snapshots", "ddp"])
def test_two_machines_learn_what_two_ranks_of_one_do(tmp_path: Path, experiment: dict[str, Any]) -> None:
    text = yaml.safe_dump(experiment)
    (tmp_path / "exp.yaml").write_text(text)
    single = subprocess.run(
        [sys.executable, "-m", "chronoscale", "bench", "exp.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert not single.returncode, single.stderr
    with machines(2, tmp_path) as made:
        for node in (0, 1):
            (tmp_path / f"node{node}").mkdir()
        (tmp_path / "node0" / "exp.yaml").write_text(text)  # the other has no experiment, and no data
        started = [made.torchrun(node, 1, "bench", "exp.yaml") for node in (0, 1)]
        with ThreadPoolExecutor() as threads:
            ends = [threads.submit(process.communicate, timeout=120) for process in started]
            heard = set[str]()
            while not all(end.done() for end in ends):
                heard |= {address for node in (0, 1) for address in made.listening(node, besides=started[node].pid)}
                time.sleep(0.2)
            outputs = [end.result()[0] for end in ends]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert heard == {"10.97.0.1", "10.97.0.2"}
    assert "clocks of the machines may differ by" in " ".join(outputs[0].split())
    expected, losses = losses_of(tmp_path / "runs"), losses_of(tmp_path / "node0")
    assert sorted(expected) == sorted(losses) and {f"{name}-losses.npy" for name in experiment["strategies"]} <= {*losses}
    assert {name: values.tolist() for name, values in losses.items()} == {name: values.tolist() for name, values in expected.items()}
    assert not losses_of(tmp_path / "node1")


def test_a_rank_that_is_killed_is_named_with_its_host(tmp_path: Path) -> None:
    long = {**TWO_STRATEGIES, "strategies": ["psg"], "repeats": 5000}
    with machines(2, tmp_path) as made:
        (tmp_path / "node0").mkdir()
        (tmp_path / "node0" / "exp.yaml").write_text(yaml.safe_dump(long))
        started = [made.torchrun(node, 1, "bench", "exp.yaml") for node in (0, 1)]
        victim = made.rank_process(1, timeout=60)
        begun = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        outputs = [process.communicate(timeout=60)[0] for process in started]
        assert time.monotonic() - begun < 60
        assert not any(made.pids(node) for node in (0, 1))
    assert [process.returncode for process in started] == [1, 0]  # who only attends leaves the failure to the first
    lines = [line for line in outputs[0].splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "rank 1 of 'ranks-2' was lost (SIGKILL)" in lines[0] and "(on node1)" in lines[0], outputs
