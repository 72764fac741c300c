"""Compatibility of the CUDA library with this machine's GPUs and driver, and the sentence that says what is missing."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

_NAME_BYTES = 256
_ARCHITECTURE = re.compile(r"(\d+)([af]?)(-real|-virtual)?")


@dataclass(frozen=True)
class Device:
    """GPU as the loader of native kernels sees it: its name, and its compute capability (90 for 9.0)."""

    name: str
    capability: int


@dataclass(frozen=True)
class ArchitectureCode:
    """Code that the native CUDA library holds for one architecture (90 for 9.0).

    Machine code (`native`), PTX that the driver compiles, or both. `only` is 'a' where it runs only on that very capability, 'f' also on
    later ones of its major version, else '' (CUDA C++ Programming Guide, "Compute capability feature sets").
    """

    architecture: int
    only: str
    native: bool
    ptx: bool

    def serves(self, capability: int, compiles: bool) -> bool:
        """Return whether a device of that compute capability runs this code.

        compiles: whether its driver compiles the PTX of the toolkit that was used.
        """
        if capability < self.architecture or (self.only == "a" and capability != self.architecture):
            return False
        family = capability // 10 == self.architecture // 10
        return (self.native and family) or (self.ptx and compiles and (family or not self.only))


@dataclass(frozen=True)
class BuildInfo:
    """Facts of the native CUDA library's build: CMake's CUDA_ARCHITECTURES, joined by commas, and CUDA's version (12040 for 12.4)."""

    architectures: str
    toolkit: int

    def codes(self) -> list[ArchitectureCode]:
        """Return the machine code and PTX that the native library has for each architecture.

        [] where they are not written as numbers ('all', ''), so that only a launch can tell.
        """
        matches = [_ARCHITECTURE.fullmatch(name) for name in self.architectures.split(",")]
        return [ArchitectureCode(int(m[1]), m[2], m[3] != "-virtual", m[3] != "-real") for m in matches if m] if all(matches) else []


def unavailable_reason(build: BuildInfo, driver: int, device: Device | None) -> str | None:
    """Return why the compiled CUDA library cannot run on a GPU of this machine, or None where nothing speaks against it.

    build: what the library was compiled for (GPU architectures, toolkit). device: the GPU; None: why its driver rules out every one.
    driver: the newest CUDA version that the driver supports, numbered as BuildInfo.toolkit; 0 without a driver. A driver runs the machine
    code of every toolkit of its major version, and compiles the PTX of no newer one (CUDA Compatibility, "Minor version compatibility").
    """
    if driver == 0:
        return "no NVIDIA driver"
    if driver // 1000 < build.toolkit // 1000:
        return (
            f"the driver supports CUDA {_version(driver)}, the library was built with {_version(build.toolkit)}; "
            f"update the driver, or build with CUDA {driver // 1000}"
        )
    codes = build.codes()
    if device is None or not codes or any(code.serves(device.capability, driver >= build.toolkit) for code in codes):
        return None
    problem = f"{device.name} (compute capability {_capability(device.capability)}): this library holds code for {_list(codes)} only"
    remedy = f"build with CUDAARCHS={device.capability}"
    if any(code.serves(device.capability, True) for code in codes):
        problem += f", and the driver, of CUDA {_version(driver)}, does not compile the PTX of {_version(build.toolkit)}"
        remedy = f"update the driver, or {remedy}"
    return f"{problem}; {remedy}"


def read_library(library: ctypes.CDLL) -> tuple[BuildInfo, int, list[Device]]:
    """Query a loaded CUDA library for the targets of its build, the driver's version, and the devices that this process sees."""
    devices: list[Device] = []
    capability, name = ctypes.c_int(), ctypes.create_string_buffer(_NAME_BYTES)
    while library.cs_cuda_device(len(devices), ctypes.byref(capability), name, _NAME_BYTES) == 0:
        devices.append(Device(name.value.decode(errors="replace"), capability.value))
    return BuildInfo(library.cs_cuda_architectures().decode(), library.cs_cuda_toolkit()), library.cs_cuda_driver(), devices


def _version(cuda: int) -> str:
    """Return CUDA's version in words: 12040 is '12.4'."""
    return f"{cuda // 1000}.{cuda % 1000 // 10}"


def _capability(number: int) -> str:
    """Return a compute capability in words: 90 is '9.0'."""
    return f"{number // 10}.{number % 10}"


def _list(codes: list[ArchitectureCode]) -> str:
    """Return the architectures of all codes in words, with '(PTX)' for those without machine code."""
    return ", ".join(_capability(code.architecture) + code.only + ("" if code.native else " (PTX)") for code in codes)
