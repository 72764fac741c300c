"""Experiment files: read, checked, and written, with the keys of the family that the model trains on."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from chronoscale import modules
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment import NAME, Experiment, Model, named
from chronoscale.harness.keys.families import FAMILIES, family_of_model
from chronoscale.harness.keys.planners import planners, trains_on, unread_sentences
from chronoscale.simulator import presets
from chronoscale.strategies.plugins import anchor_file, names_file
from chronoscale.validation_messages import mistake, part_of
from chronoscale.yaml_files import mapping


def load(path: Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Read an experiment file (YAML). Paths of strategies and modules in it are relative to its folder.

    overrides: top-level keys from the command line, which replace the file's. Raises UserError in one line: the file, the key, what was
    expected, the nearest valid name.
    """
    data = mapping(path, "experiment file", ", such as `dataset: math_overflow_monthly`")
    data.setdefault("name", _name(path))
    data.update(overrides or {})
    return check(data, str(path), path.parent)


def _name(path: Path) -> str:
    """The file's name, as runs may be called."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.")
    return clean if NAME.fullmatch(clean) else str(Experiment.model_fields["name"].default)


def check(data: Mapping[str, Any], where: str, folder: Path = Path()) -> Experiment:
    """Validate keys and values as an experiment file has them, run its Python modules, and see that its strategies and cluster exist.

    where: the file, for messages. folder: that paths in it are relative to. Raises UserError as `load`.
    """
    data = _anchor_model(dict(data), folder)
    for key, place in (("strategies", anchor_file), ("modules", lambda name, folder: str((folder / name).absolute()))):
        if isinstance(given := data.get(key), (list, tuple)):
            data[key] = [place(name, folder) if isinstance(name, str) else name for name in given]
    try:
        for file in data["modules"] if isinstance(data.get("modules"), list) else ():
            if isinstance(file, str):  # what is no text is refused with the other keys
                modules.load(file)
    except UserError as error:
        raise UserError(f"{where}: modules: {error}") from None
    experiment = parse(_configured(data, where, folder), where)
    try:
        if (load_model := FAMILIES[experiment.family].load_model) is not None:
            load_model(experiment.model.name)
        presets.cluster(experiment.cluster)
        if experiment.topology is not None:
            _check_topology(experiment.topology)
        named = planners(experiment)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    for line in unread_sentences(experiment, named):
        warnings.warn(line, ChronoscaleWarning, stacklevel=2)
    return experiment


def _check_topology(file: str) -> None:
    try:
        CpuTopology.load(Path(file))
    except UserError as error:
        raise UserError(f"topology: {error}") from None


def _anchor_model(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys, with the path of a model that a file names made absolute, a relative one from `folder`."""
    given = named(data.get("model"))
    if isinstance(given, Mapping) and isinstance(name := given.get("name"), str) and names_file(name):
        data["model"] = {**given, "name": anchor_file(name, folder)}
    return data


def _configured(data: dict[str, Any], where: str, folder: Path) -> dict[str, Any]:
    """The keys together with those of the files that a family reads for others, below those that are there. Raises UserError as the file's
    reader."""
    given = data.get("model")
    chosen = given.get("name") if isinstance(given, Mapping) else given
    for family in FAMILIES.values():
        for key, read in family.configurations.items():
            if isinstance(file := data.get(key), str) and (not isinstance(chosen, str) or family.trains(chosen)):
                try:
                    keys, notes = read(path := (folder / file).absolute())
                except UserError as error:
                    raise UserError(f"{where}: {key}: {error}") from None
                for note in notes:
                    warnings.warn(f"{key}: {note}", ChronoscaleWarning, stacklevel=2)
                data = {**data, key: str(path), **{name: _over(value, data.get(name)) for name, value in keys.items()}}
    return data


def _over(default: Any, given: Any) -> Any:
    """Merge a value over its default, a mapping key by key; a bare name stands for a mapping with that name."""
    if given is None or not isinstance(default, Mapping):
        return default if given is None else given
    given = named(given)
    return {**default, **given} if isinstance(given, Mapping) else given


def parse(data: Mapping[str, Any], where: str, family_name: str = "", lenient: bool = False) -> Experiment:
    """Validate keys and values of an experiment file by the family that its model trains on, or by the one named `family_name`.

    Strategies and cluster are not looked up. where: the file, for messages. lenient: leave out keys of other families, which runs of
    earlier versions have, in place of refusing them. Raises UserError as `load`.
    """
    try:
        name = _model(data)
        family = FAMILIES[family_name] if family_name in FAMILIES else family_of_model(name)
        others = {other.name: other.keys for other in FAMILIES.values() if other is not family}
        experiment: Experiment = family.keys.model_validate(
            _own(family.keys, others, data, "" if lenient else trains_on(name, family.name))
        )
        return experiment
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except ValidationError as error:
        raise UserError(f"{where}: {mistake(error, family.keys)}") from None


def _model(data: Mapping[str, Any]) -> str:
    """The model's name; the default one's where the file gives none, or something that is no name."""
    given = data.get("model")
    name = given.get("name") if isinstance(given, Mapping) else given
    return name if isinstance(name, str) else str(Model.model_fields["name"].default)


def _own(keys: type[BaseModel], others: Mapping[str, type[BaseModel]], data: Mapping[str, Any], on: str, above: str = "") -> dict[str, Any]:
    """Return the keys without those that only another family reads, if their values are the defaults, or `on` is empty.

    Raises UserError for one with another value: a key that nothing reads is refused.
    """
    kept = {}
    for key, value in data.items():
        readers = [name for name, theirs in others.items() if key in theirs.model_fields]
        if key in keys.model_fields or not readers:
            part = part_of(keys, key)
            if part is not None and isinstance(value, Mapping):
                theirs = {name: found for name, other in others.items() if (found := part_of(other, key)) is not None}
                value = _own(part, theirs, value, on, f"{above}{key}.")
            kept[key] = value
        elif on and value != others[readers[0]].model_fields[key].default:
            raise UserError(f"{above}{key}: for {readers[0]} alone, and {on}")
    return kept


def as_yaml(experiment: Experiment) -> str:
    """Write an experiment that comes from no file, such as that of `chronoscale demo`, as the text of an experiment file."""
    return yaml.safe_dump(experiment.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
