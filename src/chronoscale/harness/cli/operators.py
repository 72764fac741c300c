"""Command `compile`."""

from __future__ import annotations

import typer


def compile_() -> None:
    """Compile the operators in C++ for the torch that is installed: a call of a kernel then costs its host a fifth. Half a minute.

    Needs a C++ compiler (CXX, by default c++). Without them, or with CHRONOSCALE_OPERATORS=python, kernels are called by ctypes.
    """
    from chronoscale.cuda_ext.native.cpp_build import compile_operators  # noqa: PLC0415 (torch)

    typer.echo(f"wrote {compile_operators()}")
