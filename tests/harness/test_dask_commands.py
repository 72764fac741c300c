"""`simulate`, `advise`, `study` and `compare` on a Dask cluster: what they print and keep is what they do without it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import LINE, command, one_line
from distributed import LocalCluster
from self_signed import certificates

from chronoscale.harness.study import evaluation
from chronoscale.harness.sweep import parcel
from chronoscale.harness.sweep.answer import answer
from chronoscale.harness.workflows.snapshots import partitions

pytestmark = pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
ROOT = Path(__file__).parents[2]
MODEL = {"model": {"name": "t-gcn", "hidden": 8, "layers": 1, "inputs": 4}}
SIMULATED = {"strategies": ["distdgl", "strategy.py:LongestFirst"], "gpus": [2]}
ADVISED = {**SIMULATED, "advise": {"grid": {"training.group_size": [2, 4]}}}
COMPARED = {
    "strategies": ["psg", "esdg"],
    "epochs": 1,
    "costs": "datasheet",
    "training": {"validation": 0.3, "group_size": 2, "full": 1, "decayed": 1, "chunks": 4},
    "compare": {"seeds": 1, "rates": [0.01]},
}
STUDY = {
    "title": "small",
    "names": {"KEYS": {"dataset": {"path": "graphs"}, **MODEL, "training": {"group_size": 2}}},
    "metrics": ["epoch_s", "peak_gb"],
    "grid": {"main": {"experiment": "=KEYS", "strategy": ["psg", "strategy.py:LongestFirst"], "gpus": [1, 2], "cluster": "own.yaml"}},
    "rows": [{"for": {"one": "main"}, "what": "{one.strategy} {one.gpus}", "ours": "one.epoch_s"}],
    "tables": {"points": {"points": "main", "columns": ["strategy", "gpus", "epoch_s", "peak_gb", "status"]}},
}
CLOCKS = re.compile(r'"minutes": [^,]+,|"seconds": [^,}]+')
TRAINED = re.compile(r"^(train\.job\.json|\d+\.json|checkpoint\.pt)$|\.png$|\.svg$")  # paths, clocks and threads' seconds of trainings


@pytest.fixture(scope="module")
def address():
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def file(experiment):
    """A function: write what a command reads, with a strategy and a cluster in files of their own, and say where."""
    shutil.copy(ROOT / "examples/strategy.py", "strategy.py")
    shutil.copy(ROOT / "src/chronoscale/simulator/clusters/h200.yaml", "own.yaml")

    def write(what: str, **changes: object) -> Path:
        if what == "study":
            Path("study.yaml").write_text(yaml.safe_dump(STUDY))
            return Path("study.yaml")
        return experiment(what, **{"simulate": SIMULATED, "advise": ADVISED, "compare": COMPARED}[what] | changes)

    return write


@pytest.fixture
def cut(monkeypatch):
    """METIS takes a process of its own, and seconds."""
    monkeypatch.setattr(partitions, "metis_partition", lambda sequence, parts: np.arange(sequence.num_nodes, dtype=np.int32) % parts)


@pytest.fixture
def simulated(monkeypatch):
    """What the cluster's workers were given so far, which are threads of this process."""
    tasks = list[object]()
    monkeypatch.setattr(parcel, "answer", lambda judge, task: tasks.append(task) or answer(judge, task))
    return tasks


def words(what: str, file: Path, out: str) -> list[str]:
    where = ["--out", out] if what == "study" else ["--runs", out]
    return [what, str(file), "--json", *where, *(["--gpus", "1,4"] if what == "compare" else [])]


def kept(folder: str) -> dict[str, bytes]:
    """Every file of a run or a result, without clocks and the folder's name."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not TRAINED.search(path.name)]
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: CLOCKS.sub("", text.decode()).encode() if name.endswith(".json") else text for name, text in contents.items()}


@pytest.mark.parametrize("what", ["simulate", "advise", "study", "compare"])
def test_a_command_prints_and_keeps_what_it_does_without(file, inline, cut, simulated, capsys, monkeypatch, address, what):
    written, printed = file(what), []
    monkeypatch.setattr(evaluation, "_DONE", {})
    for out, how in (("here", []), ("there", ["--dask", address])):
        assert not simulated
        command(*words(what, written, out), *how)
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1] and len(simulated) == {"simulate": 2, "advise": 4, "study": 4, "compare": 4}[what]
    assert kept("here") == kept("there") and len(kept("there")) > 3


def test_what_no_cluster_simulates_is_done_here(file, cut, simulated, capsys, address):
    """A point that its data refuse; a strategy that, on the GPUs that failures leave, plans with other parts of the graph."""
    names = {**STUDY["names"]["KEYS"], "training": {"group_size": 40}}
    grid = {"main": STUDY["grid"]["main"], "refused": {**STUDY["grid"]["main"], "experiment": "=REFUSED", "gpus": 1}}
    study = {**STUDY, "names": {**STUDY["names"], "REFUSED": names}, "grid": grid}
    Path("both.yaml").write_text(yaml.safe_dump(study))
    command("study", "both.yaml", "--json", "--dask", address)
    assert "2 of 6 points: refused: dataset 'graphs' has 12 snapshots; a group of 40 needs 41" in " ".join(capsys.readouterr().err.split())
    assert len(simulated) == 4
    failing = {**SIMULATED, "strategies": ["psg", "distdgl"], "gpus": [2], "epochs": 3}
    failing["failures"] = {"policy": "shrink", "tasks": [{"epoch": 1, "task": 3}]}
    printed = []
    for out, how in (("here", []), ("there", ["--dask", address])):
        command("simulate", file("simulate", **failing), "--json", "--runs", out, *how)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and kept("here") == kept("there") and len(simulated) == 4 + 1


def test_an_address_is_tried_before_anything_is_read(experiment, capsys):
    file = experiment()
    for what in ("simulate", "advise"):
        command(what, file, "--dask", "tcp://127.0.0.1:9", expect=1)
        assert one_line(capsys).startswith("error: dask: no scheduler answers at tcp://127.0.0.1:9 (Connection refused)")
        command(what, file, "--dask", "somewhere", expect=2)
        assert "dask: somewhere is no address of a scheduler" in one_line(capsys)
    assert not Path("runs").exists()
    command("compare", experiment(**COMPARED), "--dask", "tcp://127.0.0.1:9", expect=2)
    assert "--dask simulates epochs on --gpus, and ranks are timed here; give --gpus, too" in one_line(capsys)


class Machine:
    """Scheduler or worker as a user starts it, in folders of its own, from where the first machine's folder is not to be seen."""

    def __init__(self, folder: Path, hidden: Path, *words: str) -> None:
        (folder / "tmp").mkdir(parents=True)
        dask = f"{sys.executable} -c 'import dask.__main__ as command; command.main()'"
        script = f"mount -t tmpfs none {hidden} && exec {dask} {' '.join(words)}"
        self.log = folder / "log"
        self.process = subprocess.Popen(
            ["unshare", "--mount", "bash", "-c", script],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "tmp"), "CHRONOSCALE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def says(self, pattern: str) -> str:
        """Wait for a line of its log, and return what the pattern's group is there; go on reading, so that it can go on writing."""
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if match := re.search(pattern, line):
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return match.group(1)
        raise AssertionError("".join(lines))

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.slow
def test_workers_of_other_machines_have_none_of_the_files(file, tmp_path, tmp_path_factory, monkeypatch):
    """Over TLS, with two worker processes that do not see the folder in which the commands are given."""
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("may not hide folders from processes (unshare --mount)")
    folder = tmp_path_factory.mktemp("others")
    files = certificates(folder)
    tls = ["--tls-ca-file", files["tls_ca_file"], "--tls-cert", files["tls_client_cert"], "--tls-key", files["tls_client_key"]]
    place = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--protocol", "tls"]
    machines = [Machine(folder / "scheduler", tmp_path, "scheduler", *place, *tls)]
    try:
        address = machines[0].says(r"Scheduler at:\s+(tls://\S+)")
        machines += [Machine(folder / name, tmp_path, "worker", address, "--nthreads", "1", "--no-dashboard", *tls) for name in "ab"]
        for machine in machines[1:]:
            machine.says("(Starting established connection)")
        for key, name in (("CA_FILE", "tls_ca_file"), ("CLIENT__CERT", "tls_client_cert"), ("CLIENT__KEY", "tls_client_key")):
            monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{key}", files[name])
        for what in ("simulate", "advise", "study", "compare"):
            changes = {"compare": {"strategies": ["psg", "flaredtdg"]}, "simulate": {"gpus": [1, 2, 4]}}.get(what, {})
            written, printed = file(what, **changes), []
            for out, how in (("here", []), ("there", ["--dask", address])):
                line = [*LINE, *words(what, written, out), *how]
                printed.append(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
            assert json.loads(printed[0]) == json.loads(printed[1])
            assert kept("here") == kept("there") and len(kept("there")) > 3
            assert (tmp_path / "graphs").exists() and not list((folder / "a").glob("graphs"))
            shutil.rmtree("here")
            shutil.rmtree("there")
    finally:
        for machine in reversed(machines):
            machine.end()
