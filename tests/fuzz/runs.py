"""Run folders: a file of a run, spoilt, is refused in one line that names it and says what to do, or reads to the same as before.

What a byte changes inside a number or a word is another number or word: such a file is only asked to be refused or read.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from tiny_run import Held, learner, make

from chronoscale.errors import UserError
from chronoscale.harness.publish import curves
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.publish.export import export
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import find_runs, load_experiment
from chronoscale.harness.runs.training_record import FOLDER
from chronoscale.real_exec.training.checkpoint import restore
from chronoscale.reports.tables import tables

UNREAD = (".lock", "links.csv", "experiment.yaml", "ranks-1.job.json")  # kept for people; nothing reads them again
WRONG = (None, {}, [], "x", -1, 1e300, True, [[1]], {"a": 1}, 10**30)


@cache
def sound() -> Path:
    """A run that nothing happened to."""
    return make(Path(tempfile.mkdtemp(prefix="fuzz-sound-"))).folder


@cache
def before(area: str) -> str:
    """What is read from the sound run."""
    return content(Run(sound()), area)


def content(run: Run, area: str) -> str:
    """What is read of a run, as text: by a command that goes on with its profile or its checkpoint, else by reports and traces."""
    if area == "profile":
        return curves.profile_table(run).to_csv()
    if area == "checkpoint.pt":
        model = learner(load_experiment(run))
        epoch = restore(run.folder / FOLDER, Held(model), torch.device("cpu"))
        moments = [value.tolist() for state in model.optimizer.state.values() for value in state.values()]
        return repr((epoch, [parameter.tolist() for parameter in model.model.parameters()], moments))
    report = collect([run])
    said = [f"{name}\n{table.to_csv()}" for section in report.sections for name, table in tables(section).items()]
    said += [
        repr(
            (report.title, [(one.losses, one.scores) for one in report.runs], report.notes, report.environments, report.staged, run.status)
        )
    ]
    with tempfile.TemporaryDirectory() as out:
        said += [path.read_text() for path in export(run, "perfetto", Path(out))]
    assert find_runs(run.folder.parent) == [run]
    return "\n".join(said)


def attempt(generator: np.random.Generator, folder: Path) -> str | None:
    run = Run(folder / "runs" / sound().name)
    shutil.copytree(sound(), run.folder)
    files = sorted(path for path in run.folder.rglob("*") if path.is_file() and path.name not in UNREAD and "data" not in path.parts)
    path = files[generator.integers(len(files))]
    area = path.parent.name if path.parent.name == "profile" else path.name if path.suffix == ".pt" else ""
    exact = spoil(generator, path)
    try:
        after = content(run, area)
    except UserError as error:
        said = str(error)
        named = path.name in said or path.parent.name in said or run.folder.name in said
        return None if named and "\n" not in said else f"{path.relative_to(run.folder)}: does not name the file: {said}"
    except Exception as error:
        raise AssertionError(f"{path.relative_to(run.folder)}") from error
    return None if after == before(area) or not exact else f"{path.relative_to(run.folder)}: reads to something else"


def spoil(generator: np.random.Generator, path: Path) -> bool:
    """Change the file; whether what is read may not differ."""
    kinds: list[Callable[[np.random.Generator, Path], bool]] = [_gone, _cut, _bytes, _grown]
    if path.suffix == ".json":
        kinds += 4 * [_structure]
    elif path.suffix == ".npy":
        kinds += 2 * [_array]
    return kinds[generator.integers(len(kinds))](generator, path)


def _gone(generator: np.random.Generator, path: Path) -> bool:
    path.unlink()
    return False  # a report says so


def _cut(generator: np.random.Generator, path: Path) -> bool:
    path.write_bytes(path.read_bytes()[: generator.integers(path.stat().st_size)])
    return True


def _grown(generator: np.random.Generator, path: Path) -> bool:
    path.write_bytes(path.read_bytes() + generator.bytes(int(generator.integers(1, 50))))
    return True


def _bytes(generator: np.random.Generator, path: Path) -> bool:
    content = bytearray(path.read_bytes())
    for place in generator.integers(len(content), size=int(generator.integers(1, 9))):
        content[place] = generator.integers(256)
    path.write_bytes(content)
    return False


def _structure(generator: np.random.Generator, path: Path) -> bool:
    """A key, an entry or all of it becomes something else, goes, or gets another name."""
    document = {"all": json.loads(path.read_text())}
    places: list[tuple[object, object]] = []

    def walk(node: object) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])  # type: ignore[index]

    walk(document)
    node, key = places[generator.integers(len(places))]
    choice = int(generator.integers(3)) if node is not document else 0
    if choice == 0:
        node[key] = WRONG[generator.integers(len(WRONG))]  # type: ignore[index]
    elif choice == 1:
        del node[key]  # type: ignore[attr-defined]
    elif isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    path.write_text(json.dumps(document["all"]))
    return False


def _array(generator: np.random.Generator, path: Path) -> bool:
    array = np.load(path)
    others = [array.astype(np.float32), array[0], array[None], array[:0], array[:, :0], array.astype(object), array[:1], array.T]
    np.save(path, others[generator.integers(len(others))], allow_pickle=True)
    return False
