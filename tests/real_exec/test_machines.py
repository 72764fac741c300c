"""Machines as network namespaces under torchrun: what they learn is what one machine does, and how they fail."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
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


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What one machine learns when nothing happens to it; each experiment is trained once."""
    known = dict[str, dict[str, Any]]()

    def train(experiment: dict[str, Any]) -> dict[str, Any]:
        if (name := json.dumps(experiment)) not in known:
            known[name] = alone(tmp_path_factory.mktemp("alone"), experiment, "train")
        return known[name]

    return train


def await_epochs(made: Machines) -> None:
    """Wait until two epochs are kept."""
    until = time.monotonic() + 120
    while not list(made.home(0).rglob("epochs/000001.json")) and time.monotonic() < until:
        time.sleep(0.05)


def attending(made: Machines, node: int) -> int:
    """Process id of a machine's process that torchrun has started."""
    for pid in made.pids(node):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"chronoscale" in words and b"torch.distributed.run" not in words:
            return pid
    raise ProcessLookupError


def end_machine(made: Machines, node: int = 1) -> None:
    for pid in made.pids(node):
        os.kill(pid, signal.SIGKILL)


def end_process(made: Machines, node: int = 1) -> None:
    os.kill(attending(made, node), signal.SIGKILL)


def stop_rank(made: Machines, node: int = 1) -> None:
    os.kill(made.rank_process(node, 20), signal.SIGSTOP)


LOST = "error: rank 1 on node1 has not been heard of for 3"
GONE = "error: rank 0 at 10.97.0.1:29517 is gone: "
STOPPED = "error: 'train' was ended: rank {} has not moved for 10 s, it is stopped,"
KEPT = "epochs are kept, the same command goes on after them"


@pytest.mark.parametrize(
    ("fault", "said", "said_there", "killed", "family", "strategy"),
    [
        (end_machine, LOST, "", 1, STREAMS, "memshare"),
        (end_process, LOST, "", None, STREAMS, "memshare"),
        (lambda made: made.cut(1), LOST, "error: rank 0 at 10.97.0.1:29517 has not been heard of for 3", None, STREAMS, "memshare"),
        (stop_rank, STOPPED.format(1), "", None, STREAMS, "memshare"),
        (partial(end_machine, node=0), "", GONE, 0, STREAMS, "memshare"),
        (partial(end_process, node=0), "", GONE, None, SIGNALS, "dist-index"),
        (partial(stop_rank, node=0), STOPPED.format(0), "", None, SNAPSHOTS, "psg"),
    ],
    ids=["machine 1", "process 1", "link", "rank 1", "machine 0", "process 0", "rank 0"],
)
def test_a_machine_that_is_lost_is_named_and_training_goes_on_after_it(
    tmp_path: Path,
    undisturbed: Callable[[dict[str, Any]], dict[str, Any]],
    fault: Callable[[Machines], None],
    said: str,
    said_there: str,
    killed: int | None,
    family: dict[str, Any],
    strategy: str,
) -> None:
    """Within a minute, everywhere, nothing is left, and the same command ends where one that nothing happened to does: memory, too.

    A machine that is `killed` as a whole keeps its folders.
    """
    experiment = {**COMMON, **family, "ranks": [2], "strategies": [strategy], "epochs": 12 if family is STREAMS else 40, "hang_after": 10}
    expected = undisturbed(experiment)
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1])
        await_epochs(made)
        begun = time.monotonic()
        fault(made)
        lines = outputs(started, 120)
        assert time.monotonic() - begun < 60
        assert said in lines[0] and (KEPT in lines[0]) == bool(said)
        assert said_there in lines[1]
        assert [line.count("error: ") for line in lines] == [bool(said), bool(said_there)], lines
        assert not made.pids(0) and not made.pids(1)
        assert not any(list(made.home(node).glob(f"tmp/chronoscale-{of}-*")) for node in {0, 1} - {killed} for of in ("attached", "ranks"))
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1])
        lines = outputs(started)
    assert [process.returncode for process in started] == [0, 0], lines
    assert "taking up runs/exp-train-1, which was left incomplete" in lines[0]
    assert learnt(tmp_path / "node0") == expected


def test_torchrun_starts_all_machines_again_and_training_goes_on(
    tmp_path: Path, undisturbed: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """With --max-restarts: each machine's torchrun sees to its own processes alone."""
    experiment = {**COMMON, **STREAMS, "ranks": [2], "strategies": ["memshare"], "epochs": 12, "hang_after": 10}
    expected = undisturbed(experiment)
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1], own=["--max-restarts", "1"])
        await_epochs(made)
        os.kill(made.rank_process(1, 20), signal.SIGKILL)
        lines = outputs(started)
        assert not made.pids(0) and not made.pids(1)
    assert [process.returncode for process in started] == [0, 0], lines
    assert "error: rank 1 of 'train' was lost (SIGKILL)" in lines[0] and lines[0].count("error: ") == 1
    assert "taking up runs/exp-train-1, which was left incomplete" in lines[0]
    assert learnt(tmp_path / "node0") == expected


@pytest.mark.parametrize(("family", "name"), [(SNAPSHOTS, "real-g+"), (SIGNALS, "dist-index"), (STREAMS, "tgl")])
def test_an_elastic_training_goes_on_with_the_machines_that_are_left(tmp_path: Path, family: dict[str, Any], name: str) -> None:
    experiment = {**COMMON, **family, "strategies": [name], "epochs": 8}
    with machines(2, tmp_path) as made:
        started = begin(made, experiment, "train", [1, 1], "--elastic", "1:4")
        await_epochs(made)
        end_machine(made)
        outputs(started, 120)
    before = len(list((tmp_path / "node0").rglob("epochs/*.json")))
    with machines(1, tmp_path) as made:
        (said,) = outputs(begin(made, experiment, "train", [1], "--elastic", "1:4"))
    assert "taking up runs/exp-train-1" in said and f"Epochs 0..{before - 1} on 2 ranks, {before}..7 on 1 rank:" in said
    assert len(list((tmp_path / "node0").rglob("epochs/*.json"))) == 8


def fill(folder: Path) -> None:
    """Leave no space on the disk of a folder."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass


@pytest.mark.parametrize("node", [0, 1])
def test_a_full_disk_is_one_line_on_either_machine(
    tmp_path: Path, undisturbed: Callable[[dict[str, Any]], dict[str, Any]], node: int
) -> None:
    """Once there is space, the same command ends where one that nothing happened to does. The second one is full before it has received
    the data.
    """
    experiment = {**COMMON, **SNAPSHOTS, "ranks": [2], "strategies": ["psg"], "epochs": 40, "hang_after": 10}
    expected = undisturbed(experiment)
    full = tmp_path / ("node1/tmp" if node else "node0")
    full.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k" if node else "size=64m", "none", full], check=True)
    try:
        with machines(2, tmp_path) as made:
            started = begin(made, experiment, "train", [1, 1])
            if not node:
                await_epochs(made)
                fill(full)
            lines = outputs(started)
            assert not made.pids(0) and not made.pids(1)
        assert "the disk is full; free some space and give the same command again" in lines[0]
        assert lines[0].count("error:") == 1 and ("(on node1)" in lines[0]) == bool(node)
        subprocess.run(["mount", "-o", "remount,size=64m", full], check=True)
        (full / "filler").unlink(missing_ok=True)
        with machines(2, tmp_path) as made:
            started = begin(made, experiment, "train", [1, 1])
            lines = outputs(started)
        assert [process.returncode for process in started] == [0, 0], lines
        assert "taking up runs/exp-train-1, which was left incomplete" in lines[0]
        assert learnt(tmp_path / "node0") == expected
    finally:
        subprocess.run(["umount", full], check=True)


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
