"""Experiment files, spoilt: refused in one line that names the file, or taken to say what another reading of the same YAML says.

What is taken is compared with `yaml.safe_load`, key by key: every key of the file is in the experiment, with that value.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.keys.families import FAMILIES
from chronoscale.validation_messages import part_of

SAMPLES = (
    "# a comment\ndataset: growth_small\nmodel: {name: wd-gcn, hidden: 32, inputs: 32, layers: 1}\n"
    "training: {group_size: 4, stride: 1, variant: exact, task: in-degree, validation: 0.2, test: 0.1}\n"
    "strategies: [psg, esdg, blad, real-g+]\ngroups: 12\nranks: [1, 2]\n"
    "repeats: 5\ncluster: h200\ngpus: [1, 4, 64, 1024]\nmemory: 1.5GiB\n",
    "dataset:\n  path: events.txt\n  format: plain\n  options: {header: true, comment: '#'}\n  cut: {width: 604800, cumulative: true}\n"
    "model: t-gcn\ntraining:\n  learning_rate: 1e-3\n  groups_per_rank: 2\n  horizon:\nstrategies: [psg]\nseed: 7\nextrapolate: no\n",
    "dataset: {name: los_loop, time_of_day: 288, missing: 0.0}\nmodel: {name: pgt-dcrnn, hidden: 16, hops: 3}\n"
    "training: {batch_size: 64, window: 12, horizon: 12, learning_rate: 0.01, validation: false, batches: 3}\n"
    "strategies: [pgt, index, dist-index]\nranks: [1, 2]\nepochs: 20\ngpus: [1, 4]\nthreads: 2\nwarmup: 0\ndevice: cpu\n",
)
WORDS = (
    "true", "no", "null", "~", "0", "-1", "1", "2.0", "1e3", "1e400", ".inf", ".nan", "'1'", "1_000", "0x1F", "017", "1:30", "2020-01-01",
    "[]", "{}", "[1, 1]", "[1, true]", "[a]", "{a: 1}", "99999999999999999999", "''", "é", "&a x", "*a", "!!str 5", "!!int x", "!!binary x",
    "psg", "h200", "pgt-dcrnn", "wd-gcn", "2GB", "name", "<<", "hidden", "\t", "|", "- a", "? b", "x.yaml", "a.py:B", "../x",
)  # fmt: skip
THEIRS = ("Input should", "Field required", "Experiment", "pydantic")
FREE = {"name", "modules", "strategies"}  # the file's name stands in, and paths become absolute


def attempt(generator: np.random.Generator, folder: Path) -> str | None:
    path = folder / "x y.yaml"
    text = str(generator.choice(SAMPLES))
    for _ in range(int(generator.choice([1, 1, 1, 2, 3]))):
        text = MUTATIONS[generator.integers(len(MUTATIONS))](generator, text)
    content = text.encode(errors="surrogateescape")
    if generator.random() < 0.05:
        content = _bytes(generator, content)
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChronoscaleWarning)
            found = load(path)
    except UserError as error:
        said = str(error)
        if "\n" in said or not said.startswith(f"{path}: "):
            return f"not one line about the file: {said!r}\n{content!r}"
        return f"pydantic's words: {said}\n{text}" if any(word in said for word in THEIRS) else None
    differs = difference(yaml.safe_load(content), found, "")
    return f"{differs}\n{text}" if differs else None


def difference(given: Any, found: Any, where: str) -> str | None:
    """What an experiment says otherwise than the file; None where it says the same."""
    if isinstance(found, BaseModel):
        if isinstance(given, str):
            given = {"name": given}
        if given is None or not isinstance(given, Mapping):
            return f"{where}: {given!r} was taken"
        for key, value in given.items():
            if key not in type(found).model_fields:
                if not _another(key, value, where):
                    return f"{where}{key}: ignored"
            elif key not in FREE and (said := difference(value, getattr(found, key), f"{where}{key}.")):
                return said
        return None
    if isinstance(found, Mapping):
        if not isinstance(given, Mapping) or set(given) != set(found):
            return f"{where} {given!r} -> {found!r}"
        return next((said for key in found if (said := difference(given[key], found[key], f"{where}{key}."))), None)
    if isinstance(found, tuple):
        same = isinstance(given, list) and len(given) == len(found) and all(map(_equal, given, found))
        return None if same else f"{where} {given!r} -> {found!r}"
    if (where == "memory." and type(given) is not int) or (given is None and where == "training.horizon."):
        return None  # a size with its unit; a key without a value, which takes its default
    if where == "training.validation." and given is True and found == 0:
        return None  # what other families do by default
    return None if _equal(given, found) else f"{where} {given!r} -> {found!r}"


def _another(key: str, value: object, where: str) -> bool:
    """Whether it is a key of another family that says what it says by default."""
    for family in FAMILIES.values():
        part: type[BaseModel] | None = family.keys
        for step in where.split(".")[:-1]:
            part = None if part is None else part_of(part, step)
        if part is not None and key in part.model_fields and value == part.model_fields[key].default:
            return True
    return False


def _equal(given: object, found: object) -> bool:
    """Of one kind and value. A float may be written as a whole number, or, as YAML 1.1 does not read it, as 1e3."""
    if isinstance(found, bool) or isinstance(given, bool) or given is None or found is None:
        return given is found
    if isinstance(found, float):
        return isinstance(given, int | float | str) and math.isclose(float(given), found, rel_tol=1e-15)
    return type(given) is type(found) and given == found


def _lines(generator: np.random.Generator, text: str) -> str:
    """Lines go, come twice, change places, or their depth."""
    lines = text.split("\n")
    at, other = generator.integers(len(lines), size=2)
    choice = generator.integers(5)
    if choice == 0:
        del lines[at]
    elif choice == 1:
        lines.insert(other, lines[at])
    elif choice == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif choice == 3:
        lines[at] = "  " + lines[at]
    else:
        lines[at] = lines[at].lstrip()
    return "\n".join(lines)


def _token(generator: np.random.Generator, text: str) -> str:
    """A character of meaning comes, goes or is another."""
    at = int(generator.integers(len(text)))
    return text[:at] + str(generator.choice(list("[]{},:#'\"&*!|>-?%@` \n1a."))) + text[at + int(generator.integers(2)) :]


def _value(generator: np.random.Generator, text: str) -> str:
    """A word is another one."""
    words = [(i, word) for i, word in enumerate(text.replace("\n", " \n ").split(" ")) if word.strip()]
    parts = text.replace("\n", " \n ").split(" ")
    at, word = words[generator.integers(len(words))]
    ends = len(word) - len(word.rstrip(",]}"))
    starts = len(word) - len(word.lstrip("[{"))
    parts[at] = word[:starts] + str(generator.choice(WORDS)) + word[len(word) - ends :]
    return " ".join(parts).replace(" \n ", "\n")


def _structure(generator: np.random.Generator, text: str) -> str:
    """A value of the document becomes another of its values, goes, or is nested."""
    try:
        document = yaml.safe_load(text)
    except Exception:  # spoilt before
        return text
    if not isinstance(document, dict) or not document:
        return text
    nodes = [document, *(value for value in document.values() if isinstance(value, dict) and value)]
    node, source = (nodes[generator.integers(len(nodes))] for _ in range(2))
    key = list(node)[generator.integers(len(node))]
    value = source[list(source)[generator.integers(len(source))]]
    choice = generator.integers(4)
    if choice == 0:
        node[key] = value
    elif choice == 1:
        del node[key]
    elif choice == 2:
        node[key] = [node[key]]
    else:
        node[next(iter(source))] = value
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _bytes(generator: np.random.Generator, content: bytes) -> bytes:
    spoilt = bytearray(content)
    for place in generator.integers(len(spoilt), size=int(generator.integers(1, 4))) if spoilt else ():
        spoilt[place] = generator.integers(256)
    return bytes(spoilt)


# Most files are to remain YAML, so that what they say is looked at.
MUTATIONS: tuple[Callable[[np.random.Generator, str], str], ...] = (_lines, _token, *4 * (_value,), *3 * (_structure,))
