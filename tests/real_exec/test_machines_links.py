"""Links between machines as messages over them are fitted: the rate that each is held to, and the delay of its packets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from namespaces import Machines, machines, permitted

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not permitted(), reason="network namespaces need root, and `ip netns`")]

EXPERIMENT = {
    "dataset": {"name": "growth_small"},
    "model": {"name": "wd-gcn", "hidden": 4},
    "strategies": ["psg"],
    "ranks": [2],
    "repeats": 5,
    "device": "cpu",
}
DELAY_S = 1e-3
RATES = {"1gbit": 125e6, "100mbit": 12.5e6}
# Half the fastest time in which a machine refuses a connection, which its kernel does by itself.
REFUSED = """
import socket, time
def trip():
    begun = time.perf_counter()
    with socket.socket() as one:
        assert one.connect_ex(("10.97.0.1", 9))
    return time.perf_counter() - begun
print(min(trip() for _ in range(100)) / 2)
"""


def one_way_s(made: Machines) -> float:
    """Time of a packet between the machines, without what is fitted."""
    words = ["ip", "netns", "exec", made.names[1], sys.executable, "-c", REFUSED]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def fitted(folder: Path, rate: str, delay_s: float) -> tuple[float, float, float]:
    """Bandwidth, bytes/s, and latency, s, of a link as `chronoscale profile` fits it; and what a packet takes."""
    with machines(2, folder, delay_s) as made:
        made.shape(rate)
        made.home(0).mkdir(parents=True)
        (made.home(0) / "exp.yaml").write_text(yaml.safe_dump(EXPERIMENT))
        packet_s = one_way_s(made)
        started = [made.torchrun(node, 1, "profile", "exp.yaml") for node in (0, 1)]
        said = [process.communicate()[0] for process in started]
        assert not made.pids(0) and not made.pids(1)
    assert [process.returncode for process in started] == [0, 0], said
    (file,) = made.home(0).glob("runs/*/profile/costs-2.json")
    (pair,) = json.loads(file.read_text())["pairs"]
    return pair["link"]["bandwidth"], pair["link"]["latency_s"], packet_s


def test_rates_and_delays_of_links_are_fitted(tmp_path: Path) -> None:
    """A message's delay is that of a packet, which the kernel's own answers are the witness of."""
    slow, _, _ = fitted(tmp_path / "slow", "100mbit", 0.0)
    fast, latency_s, packet_s = fitted(tmp_path / "fast", "1gbit", 0.0)
    delayed, later_s, later_packet_s = fitted(tmp_path / "delayed", "1gbit", DELAY_S)
    assert (slow, fast, delayed) == pytest.approx((RATES["100mbit"], RATES["1gbit"], RATES["1gbit"]), rel=0.1)
    assert later_packet_s - packet_s == pytest.approx(DELAY_S, rel=0.1)
    assert later_s - latency_s == pytest.approx(later_packet_s - packet_s, rel=0.1)
