"""Task: a point of a study's grid to evaluate, and how, with the hooks that its study names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from inspect import getmembers, isclass, isfunction
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from chronoscale.errors import UserError
from chronoscale.harness.study.origin import HOOKS, point_origin
from chronoscale.harness.study.point import StudyPoint, content_key
from chronoscale.harness.study.study_file import Runner, paper_file


@dataclass(frozen=True, slots=True)
class Task:
    """Point of a study's grid to evaluate, and how: by simulation, by training here, or by counting.

    runner: 'sweep' (simulated), 'train' (executed on this machine) or 'count'. function: name of the hook (a function in
    `harness/study/hooks`) that trains or counts the point, '' for a sweep. metrics: names of what is read off a simulated epoch, such as
    'epoch_s'. hooks: modules that define such functions and metrics.
    """

    point: StudyPoint
    runner: Runner
    function: str
    metrics: tuple[str, ...]
    hooks: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return the file name under which the point's result is kept: it changes with the point, the testbed, the code and the data, and
        with the machine of what is executed."""
        machine = (_machine(),) if self.runner == "train" else ()
        testbed = dict(paper_file(self.point.paper).testbed)
        return content_key(asdict(self), testbed, *point_origin(self.point.axes, testbed, self.hooks), *machine)


def _machine() -> dict[str, str]:
    """What seconds of an executed point depend on, besides the point."""
    import torch  # noqa: PLC0415 (of what is executed alone)

    from chronoscale.real_exec.measurement.environment import device_name  # noqa: PLC0415 (imports torch)

    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    devices = {kind: device_name(torch.device(kind)) for kind in kinds}
    return {**devices, "torch": str(torch.__version__), "threads": str(torch.get_num_threads())}


def hook_module(name: str) -> ModuleType:
    """Import a module of `harness/study/hooks`, a paper's own equations and measurements for study files.

    name: of the module, such as 'fast_volumes'. Raises UserError where there is none, with those that there are.
    """
    known = sorted(module.name for module in iter_modules(import_module(HOOKS).__path__))
    if name not in known:
        raise UserError(f"hooks: unknown '{name}'; there are: {', '.join(known)}")
    return import_module(f"{HOOKS}.{name}")


def hooked(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return what a study file's expressions and metrics may call of the hook modules that it names: public functions and classes, by name.

    names: modules of `harness/study/hooks`, such as 'fast_volumes'. Raises UserError for one that is not there.
    """
    functions: dict[str, Callable[..., Any]] = {}
    for name in names:
        module = hook_module(name)
        for key, member in getmembers(module, lambda one: isfunction(one) or isclass(one) or hasattr(one, "__wrapped__")):
            if not key.startswith("_") and member.__module__ == module.__name__:
                functions[key] = member
    return functions
