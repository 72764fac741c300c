"""Compiler of the torch operators in C++ (csrc/torch) for the installed torch, by one call of a C++ compiler."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from chronoscale import cuda_ext
from chronoscale.cuda_ext.native.cpp_operators import file_name
from chronoscale.cuda_ext.native.loader import cpu_library
from chronoscale.errors import MachineError, in_words

LOADS = "import sys, torch; torch.ops.load_library(sys.argv[1]); torch.ops.chronoscale._version()"
SOURCE = Path("csrc") / "torch" / "operators.cpp"


def compile_operators() -> Path:
    """Compile the C++ torch operators, check that they load, and write their library beside the other native ones; return its path.

    It is written whole or not at all. CXX names the compiler, 'c++' by default. Raises MachineError where there is no native library, no
    compiler, or none that takes the sources, and where the folder cannot be written.
    """
    library = cpu_library()
    if library is None:
        raise MachineError("no native CPU library was built, which the operators call; reinstall chronoscale where there is a C++ compiler")
    source = next((path for folder in cuda_ext.__path__ if (path := Path(folder) / SOURCE).is_file()), None)
    if source is None:
        raise MachineError(f"this installation has no {SOURCE}; reinstall chronoscale")
    target = Path(library._name).parent / file_name()
    part = target.with_suffix(f".{os.getpid()}")
    home = Path(torch.__file__).parent
    headers = [f"-isystem{home / 'include' / more}" for more in ("", "torch/csrc/api/include")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = [*shlex.split(os.environ.get("CXX", "c++")), *["-shared", "-Wl,-z,defs", "-fPIC", "-O2", "-std=c++20", "-fvisibility=hidden"]]
    command += [abi, *headers, str(source), "-o", str(part), f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10", "-ldl"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if run.returncode:
            message = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip()[-300:])
            raise MachineError(f"{command[0]} does not compile the operators: {message}")
        loads = subprocess.run([sys.executable, "-c", LOADS, str(part)], capture_output=True, text=True, errors="replace", check=False)
        if loads.returncode:
            raise MachineError(f"what was compiled does not load: {loads.stderr.strip().splitlines()[-1][:300]}")
        part.replace(target)
    except OSError as error:
        raise MachineError(f"the operators cannot be compiled: {in_words(error)}") from None
    finally:
        part.unlink(missing_ok=True)
    return target
