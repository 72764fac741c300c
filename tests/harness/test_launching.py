"""`launch slurm`: the script, what it runs where a stand-in for Slurm is on the path, and what is refused."""

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import command, one_line
from namespaces import machines, permitted
from slurm_stub import install

EXPERIMENT = {
    "dataset": {"name": "growth_small"},
    "model": {"name": "wd-gcn", "hidden": 4},
    "strategies": ["psg", "real-g+"],
    "costs": "datasheet",  # the same plan of real-g+ in both runs, whatever is measured
    "ranks": [4],
    "repeats": 1,
    "device": "cpu",
}
TWO_BY_TWO = ("--nodes", 2, "--tasks-per-node", 2)
ODD = "it's $HOME; #1.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose name a shell would take apart, with an experiment; it is the current one."""
    (home := tmp_path / "two words").mkdir()
    for name in ("exp.yaml", ODD):
        (home / name).write_text(yaml.safe_dump(EXPERIMENT))
    monkeypatch.chdir(home)
    return home


def stub(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a shell script of this name on the path."""
    (programs := folder / "bin").mkdir(exist_ok=True)
    (programs / name).write_text(f"#!/bin/sh\n{text}\n")
    (programs / name).chmod(0o700)
    if str(programs) not in os.environ["PATH"]:
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


def test_the_script_asks_for_what_was_asked(folder: Path) -> None:
    given = ("--time", "1:30:00", "--partition", "big memory", "--account", "it's", "--job-name", "x#1")
    (folder / "eight.yaml").write_text(yaml.safe_dump({**EXPERIMENT, "ranks": [32], "threads": 3, "device": "auto"}))
    command("launch", "slurm", "eight.yaml", "--nodes", 4, "--gpus-per-node", 8, *given, "--into", "job.sh")
    text = (folder / "job.sh").read_text()
    asked = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    assert sorted(asked) == sorted(
        [
            *("--nodes=4", "--ntasks-per-node=8", "--gpus-per-node=8", "--cpus-per-task=4", "--requeue", "--open-mode=append"),
            *("--time=1:30:00", "--partition='big memory'", "--account='it'\"'\"'s'", "--job-name='x#1'"),
        ]
    )
    assert subprocess.run(["bash", "-n", "job.sh"]).returncode == 0


@pytest.mark.parametrize("options", [(), ("--strategy", "psg", "--runs", "runs of $USER; it's `mine`", "--json")])
def test_the_script_starts_a_task_a_rank(folder: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    command("launch", "slurm", ODD, *TWO_BY_TWO, "--into", "job.sh", "--", "train", *options)
    stub(folder, "scontrol", '[ "$*" = "show hostnames n[7-8]" ] && printf "n7\\nn8\\n"', monkeypatch)
    stub(folder, "srun", 'printf "%s\\0" "$PWD" "$MASTER_ADDR" "$MASTER_PORT" "$@" > "$SEEN"', monkeypatch)
    job = {"SLURM_JOB_ID": "1234567", "SLURM_JOB_NODELIST": "n[7-8]", "SLURM_RESTART_COUNT": "2", "SEEN": str(folder / "seen")}
    done = subprocess.run(["bash", str(folder / "job.sh")], cwd="/", env={**os.environ, **job}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "job 1234567, start 3: 4 ranks meet at n7:24567" in done.stdout
    where, address, port, *words = (folder / "seen").read_text().split("\0")[:-1]
    assert (where, address, port) == (str(folder), "n7", "24567")
    assert words[(at := words.index(sys.executable)) :] == [sys.executable, "-m", "chronoscale", "train", ODD, *options]
    sizes = {"--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=2"}
    assert set(words[:at]) == sizes | {"--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"}


@pytest.mark.parametrize("missing", ["scontrol", "SLURM_JOB_ID"])
def test_the_script_ends_where_machines_have_no_names(folder: Path, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts no task that would look for the others in vain."""
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--into", "job.sh")
    stub(folder, "scontrol", "exit 1" if missing == "scontrol" else "echo n7", monkeypatch)
    stub(folder, "srun", "touch started", monkeypatch)
    job = {key: value for key, value in (("SLURM_JOB_ID", "1"), ("SLURM_JOB_NODELIST", "n7")) if key != missing}
    assert subprocess.run(["bash", "job.sh"], env={**os.environ, **job}, capture_output=True).returncode
    assert not (folder / "started").exists()


def test_a_script_that_was_changed_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--into", "job.sh")
    command(*words)
    command(*words)
    (folder / "job.sh").write_text("mine")
    command(*words, expect=2)
    assert one_line(capsys) == "error: --into job.sh: is there already, and differs; remove it, or give another name"
    assert (folder / "job.sh").read_text() == "mine"


def test_a_script_is_handed_to_sbatch(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("launch", "slurm", "exp.yaml", *TWO_BY_TWO)
    command(*words)
    printed = capsys.readouterr().out
    stub(folder, "sbatch", '[ "$*" = --parsable ] && cat > handed && echo "815;cluster"', monkeypatch)
    command(*words, "--submit")
    assert capsys.readouterr().out == "job 815; its output: slurm-815.out\n"
    assert (folder / "handed").read_text() == printed
    stub(folder, "sbatch", 'echo "invalid partition" >&2; exit 3', monkeypatch)
    command(*words, "--submit", expect=1)
    assert one_line(capsys) == "error: sbatch: invalid partition"


def test_where_there_is_no_sbatch_one_line_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--submit", expect=2)
    assert one_line(capsys).startswith("error: --submit: there is no sbatch here; write the script with --into FILE")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("exp.yaml", "--nodes", 3, "--tasks-per-node", 1), "ranks: 4, and 3 nodes of 1 are 3 ranks; take more nodes"),
        (("absent.yaml", *TWO_BY_TWO), "absent.yaml: no such"),
        (("exp.yaml", "--nodes", 2), "one of them"),
        (("exp.yaml", *TWO_BY_TWO, "--gpus-per-node", 2), "one of them"),
        (("cuda.yaml", *TWO_BY_TWO), "device: cuda, and no GPUs"),
        (("exp.yaml", *TWO_BY_TWO, "--partition", "a\n#SBATCH --uid=0"), "--partition 'a\\n#SBATCH --uid=0': expected characters"),
        (("exp.yaml", *TWO_BY_TWO, "--account", "a\\"), "--account 'a\\\\': expected characters"),
        (("exp.yaml", *TWO_BY_TWO, "--job-name", ""), "--job-name '': expected characters"),
        (("two\nlines.yaml", *TWO_BY_TWO), "word 'two\\nlines.yaml': expected characters"),
        (("exp.yaml", *TWO_BY_TWO, "--", "trian"), "trian"),
        (("exp.yaml", *TWO_BY_TWO, "--", "keys"), "-- keys: runs no experiment on ranks; expected profile, bench,"),
        (("exp.yaml", *TWO_BY_TWO, "--", "study"), "-- study: runs no experiment on ranks"),
        (("exp.yaml", *TWO_BY_TWO, "--", "--epochs", 3), "-- --epochs: expected a command before its options"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--elastci", "2:4"), "-- train --elastci 2:4: No such option: --elastci"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--epochs", "many"), "-- train --epochs many: Invalid value for '--epochs'"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--epochs"), "Option '--epochs' requires an argument"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "other.yaml"), "-- train other.yaml: Got unexpected extra argument"),
        (("exp.yaml", *TWO_BY_TWO, "--", "bench", "--strategy", "psg"), "-- bench --strategy psg: No such option: --strategy"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--strategy", "psgg"), "psgg"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--epochs", -3), "epochs"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--ranks", 4, "--elastic", "2:4"), "--elastic chooses the number of ranks"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--elastic", "4:2"), "--elastic: '4:2', expected MIN:MAX"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--ranks", 8), "ranks: 8, and 2 nodes of 2 are 4 ranks"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--elastic", "5:8"), "--elastic: at least 5 ranks, and 2 nodes of 2 are 4 ranks"),
        (("exp.yaml", *TWO_BY_TWO, "--", "train", "--runs", ""), "word '': expected characters"),
        (("exp.yaml", *TWO_BY_TWO, "--", "compare", "--target", "mse=low"), "--target mse=low: expected a number"),
        (("exp.yaml", *TWO_BY_TWO, "--", "compare", "--gpus", "8", "--ranks", 2), "give one of them"),
        (("exp.yaml", *TWO_BY_TWO, "--", "compare", "--dask", "tcp://a:1"), "--dask simulates epochs on --gpus"),
        (("exp.yaml", *TWO_BY_TWO, "--", "advise", "--objective", "beauty"), "beauty"),
        (("virtual.yaml", *TWO_BY_TWO, "--", "bench"), "virtual: true: bench measures times"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[object, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cuda.yaml").write_text(yaml.safe_dump({**EXPERIMENT, "device": "cuda"}))
    (folder / "virtual.yaml").write_text(yaml.safe_dump({**EXPERIMENT, "virtual": True}))
    (folder / "two\nlines.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    command("launch", "slurm", "--into", "job.sh", *words, expect=2)
    assert said in one_line(capsys)
    assert not (folder / "job.sh").exists()


def test_tasks_without_a_rank_are_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("launch", "slurm", "exp.yaml", "--nodes", 4, "--tasks-per-node", 2)
    assert "4 nodes of 2 are 8 ranks, and the experiment has at most 4 (ranks: [4])" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ((), ["bench", "exp.yaml"]),
        (("--", "bench"), ["bench", "exp.yaml"]),
        (("--", "train", "exp.yaml", "--epochs", 3), ["train", "exp.yaml", "--epochs", "3"]),
        (("--", "train", "--elastic", "2:8"), ["train", "exp.yaml", "--elastic", "2:8"]),
        (("--", "compare", "--target", "mse=0.1", "--seeds", 2), ["compare", "exp.yaml", "--target", "mse=0.1", "--seeds", "2"]),
    ],
)
def test_what_comes_last_is_run(given: tuple[object, ...], runs: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ranks that a training may do without are none too few."""
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, *given)
    printed = capsys.readouterr()
    assert shlex.split(printed.out.rpartition("\\\n")[2])[1:] == ["-m", "chronoscale", *runs]
    assert "warning" not in printed.err


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--ranks", 2), "the experiment has at most 2 (ranks: [2])"), (("--elastic", "1:3"), "--elastic takes at most 3")],
)
def test_ranks_of_the_command_count(options: tuple[object, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--", "train", *options)
    assert f"2 nodes of 2 are 4 ranks, and {said}: the others would wait" in " ".join(capsys.readouterr().err.split())


def test_help_of_the_command_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--into", "job.sh", "--", "train", "--help")
    assert "--elastic" in capsys.readouterr().out and not (folder / "job.sh").exists()


@pytest.mark.slow
@pytest.mark.skipif(not permitted(), reason="network namespaces need root, and `ip netns`")
def test_a_job_that_is_queued_again_learns_what_one_machine_does(folder: Path, tmp_path: Path) -> None:
    """To the bit: two machines are lost after the job's first part, and the same script goes on with the second."""
    (folder / "exp.yaml").write_text(yaml.safe_dump({**EXPERIMENT, "ranks": [2, 4]}))
    words = [sys.executable, "-m", "chronoscale", "bench", "exp.yaml", "--runs", "single"]
    single = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert not single.returncode, single.stderr
    command("launch", "slurm", "exp.yaml", *TWO_BY_TWO, "--into", "job.sh")
    with machines(2, tmp_path) as made:
        environment = install(tmp_path / "bin", [(name, made.address(node), tmp_path / name) for node, name in enumerate(made.names)])
        lost = subprocess.Popen(["bash", "job.sh"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = folder / "runs" / "exp-bench-1"
        while not (run / "ranks-4" / "ranks-4.job.json").exists():
            assert lost.poll() is None, "it ended before"
            time.sleep(0.01)
        for pid in [*made.pids(0), *made.pids(1)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert lost.wait(timeout=60)
        kept = {file: file.stat().st_mtime_ns for file in (run / "ranks-2").glob("*-losses.npy")}
        again = {**environment, "SLURM_RESTART_COUNT": "1"}
        job = subprocess.run(["bash", "job.sh"], env=again, capture_output=True, text=True, timeout=300)
        assert not job.returncode, job.stderr
        assert not any(made.pids(node) for node in (0, 1))
    assert "job 4711, start 2: 4 ranks meet at 10.97.0.1:24711" in job.stdout
    assert len(kept) == 2 and kept == {file: file.stat().st_mtime_ns for file in kept}
    expected, learned = (
        {str(file.relative_to(each)): np.load(file).tolist() for file in each.rglob("*-losses.npy")}
        for each in (folder / "single" / "exp-bench-1", run)
    )
    assert len(learned) == 4 and learned == expected
