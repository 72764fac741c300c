"""Wheels: packages that a machine without network may lack, carried in one ignored folder: `make gpu-wheels`, where there is a network."""

from __future__ import annotations

import subprocess
import sys

from gpu.place import ROOT, WHEELS

# What the parts import beside torch, NumPy, SciPy, pandas, PyArrow, scikit-learn, psutil, PyYAML, Jinja2, fsspec, packaging, Pygments,
# markdown-it-py, h5py, matplotlib, pytest and hypothesis. Not carried: DGL, gurobipy and highspy, which no part needs.
CARRIED = (
    *("pydantic", "pydantic_core", "annotated-types", "typing-inspection", "typing_extensions", "simpy"),
    *("typer", "annotated-doc", "click", "rich", "shellingham"),
    *("pytest-benchmark", "py-cpuinfo2"),
    *("distributed", "dask", "cloudpickle", "locket", "msgpack", "partd", "sortedcontainers", "tblib", "toolz", "tornado", "zict"),
)
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")


def pins() -> list[str]:
    """Return NAME==VERSION of what is carried, with the versions of constraints.txt. Raises KeyError for one without."""
    lines = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    versions = {_plain(name): version for name, _, version in (line.partition("==") for line in lines)}
    return [f"{name}=={versions[_plain(name)]}" for name in CARRIED]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def download() -> int:
    """Fill the folder anew, and return pip's exit code."""
    WHEELS.mkdir(exist_ok=True)
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    what = ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp", *platforms]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *what, "--dest", str(WHEELS), *pins()]
    code = subprocess.run(command, check=False).returncode
    wheels = list(WHEELS.glob("*.whl"))
    print(f"{WHEELS.relative_to(ROOT)}: {len(wheels)} wheels, {sum(path.stat().st_size for path in wheels) / 1e6:.1f} MB")
    return code or int(len(wheels) != len(CARRIED))


if __name__ == "__main__":
    raise SystemExit(download())
