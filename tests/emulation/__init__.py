"""The CUDA kernels on the CPU: every CUDA thread a fiber, orders drawn from a seed (docs/architecture.md, "What the suite can catch")."""

from emulation.builder import build, compiler, library

__all__ = ["build", "compiler", "library"]
