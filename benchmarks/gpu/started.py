"""Started: one part in this process, and what its JSON says of it in the end."""

from __future__ import annotations

import sys
import traceback

from gpu.machine import machine
from gpu.parts import PARTS
from gpu.place import Place, commit, sources
from gpu.record import FAILED, NO_DEVICE, PASSED, RUNNING, Failed, NoDevice, Record


def start(name: str, place: Place) -> int:
    """Exit code: 0 where the part passed."""
    head = {"part": name, "status": RUNNING, "rehearsal": place.rehearsal, "sources": sources(), "commit": commit()}
    record = Record(place.result(name), **head)
    try:
        record.put(machine=machine(place.device))
        PARTS[name].run()(place, record)
    except NoDevice as error:
        record.put(status=NO_DEVICE, why=str(error))
        print(f"{name}: no device: {error}", file=sys.stderr)
        return 3
    except Failed as error:
        record.put(status=FAILED, why=str(error))
        print(f"{name}: failed: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        record.put(status=FAILED, why=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        traceback.print_exc()
        return 1
    record.put(status=PASSED)
    return 0
