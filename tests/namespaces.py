"""Machines that are network namespaces of this one, joined by a bridge of veth pairs, with folders of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from relay import relayed

from chronoscale.real_exec.ranks.positions import Phase, pages

PORT = 29517
DAY_S = 86400
CGROUPS = Path("/sys/fs/cgroup/memory")
ENTER = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
# Take a host name, mount an empty file system over each of some folders, then run a command; mounts of a namespace's process are its own.
HIDE = 'hostname "$1"; shift; while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift; exec "$@"'


def _ip(*words: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(done.stderr.strip())
    return not done.returncode


def permitted() -> bool:
    """Whether this process may make network namespaces."""
    if os.getuid() != 0:
        return False
    name = f"chr{os.getpid()}t"
    try:
        return _ip("netns", "add", name, check=False) and _ip("netns", "del", name, check=False)
    except FileNotFoundError:
        return False


class Machines:
    """Network namespaces, each with an address and folders of its own; none sees the others' folders, and their clocks are days apart."""

    def __init__(self, names: list[str], folder: Path) -> None:
        self.names, self.folder = names, folder
        self.groups: list[Path] = []
        self.cores: list[int] = []

    def home(self, node: int) -> Path:
        """A machine's folder, in which commands run."""
        return self.folder / f"node{node}"

    def torchrun(self, node: int, ranks: int, *words: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start torchrun on one of the machines, as a user would in a terminal of it. options: more of torchrun's own."""
        for each in range(len(self.names)):
            (self.home(each) / "tmp").mkdir(parents=True, exist_ok=True)
        others = [str(self.home(each)) for each in range(len(self.names)) if each != node]
        where = ["--nnodes", str(len(self.names)), "--nproc-per-node", str(ranks), "--node-rank", str(node)]
        meet = ["--master-addr", self.address(0), "--master-port", str(PORT)]
        inside = ["sh", "-c", ENTER, "sh", str(self.groups[node])] if self.groups else []
        own = ["taskset", "-c", str(self.cores[node])] if self.cores else []
        there = [*inside, *own, "ip", "netns", "exec", self.names[node], "unshare", "--uts", "--time", "--monotonic", str(node * DAY_S)]
        hidden = ["sh", "-c", HIDE, "sh", f"node{node}", *others, "--"]
        return subprocess.Popen(
            [*there, *hidden, sys.executable, "-m", "torch.distributed.run", *where, *meet, *options, "-m", "chronoscale", *words],
            cwd=self.home(node),
            env={**os.environ, "TMPDIR": str(self.home(node) / "tmp"), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def cut(self, node: int) -> None:
        """Cut the link of a machine other than the first."""
        _ip("-n", self.names[0], "link", "set", f"v{node}", "down")

    def shape(self, rate: str) -> None:
        """Hold each link to a rate, such as 100mbit, in both directions."""
        for node, name in enumerate(self.names[1:], 1):
            for space, device in ((self.names[0], f"v{node}"), (name, "eth0")):
                qdisc = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
                subprocess.run(["ip", "netns", "exec", space, *qdisc], check=True, capture_output=True)

    def pin(self) -> None:
        """Give each machine one core of its own, for what runs on it from now on, as long as there are enough."""
        there = sorted(os.sched_getaffinity(0))
        self.cores = [there[node % len(there)] for node in range(len(self.names))]

    def limit(self, memory: int) -> None:
        """Hold what runs on each machine from now on, and its pages of files, to so many bytes."""
        self.groups = [CGROUPS / name for name in self.names]
        for group in self.groups:
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(memory))

    @staticmethod
    def address(node: int) -> str:
        """Address of a machine."""
        return f"10.97.0.{node + 1}"

    def pids(self, node: int) -> list[int]:
        """Processes that run on a machine."""
        done = subprocess.run(["ip", "netns", "pids", self.names[node]], capture_output=True, text=True)
        return [int(pid) for pid in done.stdout.split()]

    def listening(self, node: int, besides: int) -> set[str]:
        """Addresses on which processes of a machine take TCP connections, but for the process `besides` (torchrun's agent)."""
        done = subprocess.run(["ip", "netns", "exec", self.names[node], "ss", "-Hltnp"], capture_output=True, text=True)
        lines = [line.split() for line in done.stdout.splitlines() if f"pid={besides}," not in line]
        return {words[3].rpartition(":")[0] for words in lines}

    def rank_process(self, node: int, timeout: float) -> int:
        """Process id of the rank on a machine, once it passes over its schedule."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for log in (self.home(node) / "tmp").glob("chronoscale-ranks-*/rank-*.log"):
                for pid in self.pids(node):
                    with suppress(OSError):
                        passes = pages(log.parent, 1)[0].read().phase == Phase.PASS
                        if passes and os.readlink(f"/proc/{pid}/fd/2") == str(log):
                            return pid
            time.sleep(0.1)
        raise TimeoutError


@contextmanager
def machines(count: int, folder: Path, delay_s: float | None = None) -> Iterator[Machines]:
    """Make so many machines; they are gone afterwards, and what ran on them is killed. delay_s: by how much a relay in a namespace of its
    own delays every packet between the first and another.
    """
    unique = f"chr{os.getpid() % 100000}"
    names, between = [f"{unique}n{node}" for node in range(count)], f"{unique}r"
    ends = [f"{side}{node}" for node in range(1, count) for side in "ab"] if delay_s is not None else []
    made = Machines(names, folder)
    try:
        _ip("netns", "add", between)
        for node, name in enumerate(names):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            if node == 0:
                _ip("-n", name, "link", "add", "br0", "type", "bridge")
                _ip("-n", name, "addr", "add", f"{Machines.address(node)}/24", "dev", "br0")
                _ip("-n", name, "link", "set", "br0", "up")
            else:
                if ends:
                    _ip("-n", names[0], "link", "add", f"v{node}", "type", "veth", "peer", "name", f"a{node}", "netns", between)
                    _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"b{node}", "netns", between)
                else:
                    _ip("-n", names[0], "link", "add", f"v{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
                _ip("-n", names[0], "link", "set", f"v{node}", "master", "br0", *(["mtu", "9000"] if ends else []))
                _ip("-n", names[0], "link", "set", f"v{node}", "up")
                _ip("-n", name, "addr", "add", f"{Machines.address(node)}/24", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up", *(["mtu", "9000"] if ends else []))
        for end in ends:
            _ip("-n", between, "link", "set", end, "addrgenmode", "none", "mtu", "9000", "up")
        with relayed(between, ends, delay_s or 0.0) if ends else nullcontext():
            yield made
    finally:
        for name in (*names, between):
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in pids:
                subprocess.run(["kill", "-9", pid], capture_output=True)
            _ip("netns", "del", name, check=False)
        for group in made.groups:
            _leave(group)


def _leave(group: Path) -> None:
    """Remove a group, whose processes have been killed, once they are gone."""
    until = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    group.rmdir()
