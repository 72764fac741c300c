"""A relay of frames between network interfaces, each of which leaves a given time after it came: `python relay.py SECONDS a1 b1 a2 b2 …`.

What comes on an interface goes out of its neighbour in the list, and the other way around. Frames stay as the kernel has them, of up to
64 KB and without checksums (PACKET_VNET_HDR). It ends with its standard input.
"""

import ctypes
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23  # linux/if_packet.h
PR_SET_TIMERSLACK = 29  # linux/prctl.h
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
LARGEST = 1 << 17  # of a frame, with its headers
BUFFER = 1 << 26  # bytes that a socket may hold
BATCH = 64  # frames that are read before those that are due are looked at


def opened(device: str) -> socket.socket:
    """Return a socket of the frames of an interface."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    made.bind((device, 3))  # ETH_P_ALL
    made.setblocking(False)
    return made


def relay(delay_s: float, devices: list[str]) -> None:
    """Relay between each two interfaces until standard input ends."""
    sockets = [opened(device) for device in devices]
    beside = {one: sockets[place ^ 1] for place, one in enumerate(sockets)}
    waiting = deque[tuple[float, socket.socket, bytes]]()
    print("ready", flush=True)
    while True:
        left = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        ready, _, _ = select.select([sys.stdin, *sockets], [], [], left)
        if sys.stdin in ready:
            return
        for one in ready:
            other = beside[one]
            for _ in range(BATCH):
                try:
                    frame = one.recv(LARGEST)
                except BlockingIOError:
                    break
                waiting.append((time.monotonic() + delay_s, other, frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, other, frame = waiting.popleft()
            try:
                other.send(frame)
            except OSError:
                lost(frame)


@contextmanager
def relayed(space: str, devices: list[str], delay_s: float) -> Iterator[None]:
    """Relay between each two interfaces of a network namespace, in a process."""
    words = ["ip", "netns", "exec", space, sys.executable, "-I", __file__, str(delay_s), *devices]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise OSError("the relay has not started")
        yield


def lost(frame: bytes) -> None:
    """Say that a frame was lost, as one is on a link that is full, or down."""
    print(f"{len(frame)} bytes lost", file=sys.stderr, flush=True)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # by default, 50 µs late
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # before ranks, which share its cores
    relay(float(sys.argv[1]), sys.argv[2:])
