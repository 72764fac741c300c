"""Part build: the carried packages, and the native libraries for the device that is there. Fails without the backend that is wanted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core import json_file
from core.nvidia import smi, tool

from gpu.child import Failed, NoDevice, exit_code
from gpu.place import ROOT, WHEELS, Place, digest, part_arguments

NATIVE = ("src/chronoscale/cuda_ext/csrc", "CMakeLists.txt")
HOPPER = "90"  # where no device says otherwise
LIBRARIES = ("libchronoscale_cpu.so", "libchronoscale_cuda.so")
STAMP = "stamp"
LOADED = """
import json, torch
from chronoscale.cuda_ext.native.backend import backends
from chronoscale.real_exec.measurement.environment import fingerprint
there = torch.cuda.is_available()
environment = fingerprint(torch.device("cuda" if there else "cpu"))
print(json.dumps({**environment, "backends": backends(), "cuda is available": there}))
"""


def run(place: Place) -> None:
    """Write build.json: packages, libraries, device, versions. Raises Failed, and NoDevice once everything is built."""
    packages = _unpack(place)
    capability = smi().get("compute_cap", "")
    architecture = capability.replace(".", "") or HOPPER
    compiled = _compile(place, architecture)
    operators = _compile_operators(place, compiled)
    answer = _output([sys.executable, "-c", LOADED], place.environment()).strip()
    loaded: dict[str, Any] = json.loads(answer.rpartition("\n")[2])
    built = {"packages": packages, "architecture": architecture, "compiled": compiled, "operators": operators}
    json_file.write(place.out / "build.json", {**loaded, "gpu": smi(), **built})
    print(", ".join(f"{key} {value}" for key, value in {**loaded, **built}.items() if key != "packages"))
    if not place.rehearsal and not loaded["cuda is available"]:
        raise NoDevice("both libraries are built, and torch.cuda.is_available() is false")
    if place.device not in loaded["backends"]:
        raise Failed(
            f"backend '{place.device}' is not available, only {', '.join(loaded['backends'])}; libraries in {place.libraries}, "
            f"architecture {architecture}, device {loaded['device']} of capability {capability or 'unknown'}"
        )


def _unpack(place: Place) -> list[str]:
    """Unpack the wheels, once for each set of them, and return their names."""
    wheels = sorted(WHEELS.glob("*.whl"))
    if not wheels:
        raise Failed(f"{WHEELS.name} holds no wheels: `make gpu-wheels`, where there is a network")
    names, stamp = [wheel.name for wheel in wheels], place.packages / STAMP
    if not stamp.exists() or stamp.read_text().split() != names:
        shutil.rmtree(place.packages, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
        _output([*install, "--target", str(place.packages), *map(str, wheels)])
        stamp.write_text("\n".join(names))
    return names


def _compile(place: Place, architecture: str) -> bool:
    """Compile the libraries, and return whether they had to be: they may be carried here, built elsewhere from the same sources."""
    stamp, wanted = place.libraries / STAMP, f"{digest(*NATIVE)} {architecture}"
    if stamp.exists() and stamp.read_text() == wanted and all((place.libraries / name).exists() for name in LIBRARIES):
        return False
    folder = place.work / "cmake"
    make = ["-G", "Ninja"] if shutil.which("ninja") else []
    how = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}"]
    shutil.rmtree(folder, ignore_errors=True)
    compiler = {"CUDACXX": nvcc} if "CUDACXX" not in os.environ and (nvcc := tool("nvcc")) else {}  # CMake looks on PATH alone
    output = _output(["cmake", "-S", str(ROOT), "-B", str(folder), *make, *how], {**os.environ, **compiler})
    output += _output(["cmake", "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0)))])
    place.libraries.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        built = next(Path(folder).rglob(name), None)
        if built is None:
            raise Failed(f"{name} was not built: {[line for line in output.splitlines() if 'CUDA' in line][-1:]}")
        shutil.copy2(built, place.libraries / name)
    stamp.write_text(wanted)
    return True


def _compile_operators(place: Place, compiled: bool) -> str:
    """Return 'c++' where operators in C++ serve this torch, or why they do not: kernels are called by ctypes then, which stops nothing."""
    libraries = list(place.libraries.glob(f"libchronoscale_torch-*-{version('torch')}.so"))
    if compiled or not libraries:
        for old in libraries:
            old.unlink()
        try:
            _output([sys.executable, "-m", "chronoscale", "compile"], place.environment())
        except Failed as failed:
            return f"python: {failed}"
    return "c++"


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints, which is on standard error, too. Raises Failed with the end of it."""
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, file=sys.stderr, flush=True)
    if done.returncode:
        raise Failed(f"{' '.join(command[:4])} … ended with code {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(exit_code(lambda: run(part_arguments()[0])))
