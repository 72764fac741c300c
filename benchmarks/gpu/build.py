"""Build: the carried packages, and the native libraries for the device that is there. Fails without the backend that is wanted."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from gpu.child import run as ran
from gpu.child import tail
from gpu.machine import gpu, smi, tool
from gpu.place import ROOT, WHEELS, Place, digest
from gpu.record import Failed, NoDevice, Record

NATIVE = ("src/chronoscale/cuda_ext/csrc", "CMakeLists.txt")
HOPPER = "90"  # where no device says otherwise
LIBRARIES = ("libchronoscale_cpu.so", "libchronoscale_cuda.so")
STAMP = "stamp"
LOADED = (
    "import json, torch; from chronoscale.cuda_ext.native.backend import backends; from chronoscale.cuda_ext.native.loader import versions;"
    "print(json.dumps({'backends': backends(), 'libraries': versions(), 'device': torch.cuda.is_available()}))"
)


def run(place: Place, record: Record) -> None:
    """Raises Failed, and NoDevice once everything is built."""
    record.put(packages=_packages(place))
    capability = gpu().get("capability") or smi().get("compute_cap", "")
    architecture = capability.replace(".", "") or HOPPER
    compiled = _compiled(place, architecture)
    record.put(architecture=architecture, compiled=compiled, operators=_operators(place, compiled))
    loaded = json.loads(_output(place, [sys.executable, "-c", LOADED], place.environment(), apart=True).strip().rpartition("\n")[2])
    record.put(**loaded)
    if not place.rehearsal and not loaded["device"]:
        raise NoDevice("both libraries are built, and torch.cuda.is_available() is false")
    if place.device not in loaded["backends"]:
        raise Failed(
            f"backend '{place.device}' is not available, only {', '.join(loaded['backends'])}; libraries {loaded['libraries']} in "
            f"{place.libraries}, architecture {architecture}, device {gpu().get('name')} of capability {capability or 'unknown'}"
        )


def _packages(place: Place) -> list[str]:
    """Names of the wheels, unpacked; once for each set of them."""
    wheels = sorted(WHEELS.glob("*.whl"))
    if not wheels:
        raise Failed(f"{WHEELS.name} holds no wheels: `make gpu-wheels`, where there is a network")
    names, stamp = [wheel.name for wheel in wheels], place.packages / STAMP
    if not stamp.exists() or stamp.read_text().split() != names:
        shutil.rmtree(place.packages, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
        _output(place, [*install, "--target", str(place.packages), *map(str, wheels)])
        stamp.write_text("\n".join(names))
    return names


def _compiled(place: Place, architecture: str) -> bool:
    """Whether anything had to be compiled. A library that was built elsewhere from the same sources may be carried here."""
    stamp, wanted = place.libraries / STAMP, f"{digest(*NATIVE)} {architecture}"
    if stamp.exists() and stamp.read_text() == wanted and all((place.libraries / name).exists() for name in LIBRARIES):
        return False
    folder = place.work / "cmake"
    make = ["-G", "Ninja"] if shutil.which("ninja") else []
    how = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}"]
    shutil.rmtree(folder, ignore_errors=True)
    compiler = {"CUDACXX": nvcc} if "CUDACXX" not in os.environ and (nvcc := tool("nvcc")) else {}  # CMake looks on PATH alone
    output = _output(place, ["cmake", "-S", str(ROOT), "-B", str(folder), *make, *how], {**os.environ, **compiler})
    output += _output(place, ["cmake", "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0)))])
    place.libraries.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        built = next(Path(folder).rglob(name), None)
        if built is None:
            raise Failed(f"{name} was not built: {[line for line in output.splitlines() if 'CUDA' in line][-1:]}")
        shutil.copy2(built, place.libraries / name)
    stamp.write_text(wanted)
    return True


def _operators(place: Place, compiled: bool) -> str:
    """'c++' where operators in C++ serve this torch, or why they do not: kernels are called by ctypes then, which stops nothing."""
    libraries = list(place.libraries.glob(f"libchronoscale_torch-*-{version('torch')}.so"))
    if compiled or not libraries:
        for old in libraries:
            old.unlink()
        try:
            _output(place, [sys.executable, "-m", "chronoscale", "compile"], place.environment())
        except Failed as failed:
            return f"python: {failed}"
    return "c++"


def _output(place: Place, command: list[str], env: Mapping[str, str] | None = None, apart: bool = False) -> str:
    """What a command says, with `apart` on its standard output alone. Raises Failed with the end of it."""
    log = place.log("build")
    code, said = ran(command, log, env, apart=apart)
    if code:
        raise Failed(f"{' '.join(command[:4])} … ended with code {code}: {(said + apart * tail(log)).strip()[-600:]}")
    return said
