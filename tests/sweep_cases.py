"""Functions of sweeps, where processes of their own find them."""

import os
import signal
import tempfile
import threading
import warnings

from chronoscale.errors import ChronoscaleWarning, UserError


def square(value: int) -> int:
    return value * value


def refuse(value: int) -> int:
    if value == 3:
        raise UserError("three is wrong")
    return value


def litter(value: int) -> int:
    tempfile.mkdtemp()
    return value


def die(value: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


def warn(value: int) -> int:
    warnings.warn(f"{value} is odd" if value % 2 else "even", ChronoscaleWarning, stacklevel=2)
    return value


GATE, CALLS = threading.Event(), list[int]()


def wait_at_gate(value: int) -> int:
    """The first task is done at once, others when GATE is set."""
    CALLS.append(value)
    if len(CALLS) > 1:
        GATE.wait(60)
    return value
