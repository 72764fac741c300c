"""Functions of sweeps, where processes of their own find them."""

import os
import signal
import tempfile

from chronoscale.errors import UserError


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
