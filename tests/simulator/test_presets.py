from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import yaml

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import CPU_STREAMS, Lane, Link

SIZES = {
    **{"a100": 1, "a100-8": 32, "a40-10g": 16, "a40-ib": 16, "b200": 32, "gh200": 16, "h100": 32, "h100-pcie": 32, "h20": 16},
    **{"h200": 32, "h200-1024": 1024, "h200-512": 512, "l40s": 32, "polaris": 128},
}


def test_every_preset_loads():
    assert {name: presets.cluster(name).gpus for name in presets.names()} == SIZES


def test_the_papers_machines():
    h200 = presets.cluster("h200")
    assert (h200.nodes, h200.gpus_per_node, h200.device.name, h200.device.memory) == (4, 8, "NVIDIA H200", 141e9)
    assert h200.intra.bandwidth == 450e9  # one direction of 900 GB/s
    assert h200.inter.bandwidth * h200.gpus_per_node * 8 == 3.2e12  # 3.2 Tb/s a node
    assert presets.cluster("h20").inter.bandwidth * 8 * 8 == 1.6e12
    assert presets.cluster("a40-ib").inter.bandwidth * 4 * 8 == 200e9
    assert presets.cluster("a40-ib").host_memory == 1e12 and presets.cluster("a40-ib").gpus * 48e9 == 768e9
    assert presets.cluster("a40-10g").inter.bandwidth * 4 * 8 == 10e9


def test_every_figure_has_its_unit_beside_it():
    for folder in ("clusters", "devices"):
        for entry in (resources.files("chronoscale.simulator") / folder).iterdir():
            for line in entry.read_text().splitlines():
                if "e+" in line or "e-" in line:
                    assert any(f"# {unit}" in line for unit in ("B/s", "s", "bytes", "FLOP/s")), f"{entry}: {line}"


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UserError, match="unknown cluster 'h2000'; did you mean 'h200'"):
        presets.cluster("h2000")


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (8, 1), (9, 2), (1024, 128)])
def test_scaling_adds_machines_of_the_same_kind(gpus, nodes):
    cluster = presets.scaled(presets.cluster("h200"), gpus)
    assert (cluster.nodes, cluster.gpus_per_node) == (nodes, 8)


@pytest.mark.parametrize("gpus", [0, -4])
def test_no_gpus(gpus):
    with pytest.raises(UserError, match=f"^cluster 'h200': at least one GPU is needed, got {gpus}$"):
        presets.scaled(presets.cluster("h200"), gpus)


def own(**changes: object) -> dict[str, object]:
    """A device's figures as a user's file has them."""
    h2d = {"bandwidth": 1e9, "latency_s": 0}
    return {"name": "X", "memory": 1e9, "flops": 1e12, "memory_bandwidth": 1e11, "launch_s": 0, "h2d": h2d, **changes}


def written(folder: Path, **changes: object) -> Path:
    """A cluster file like the preset h200, with keys replaced, or removed where the value is None."""
    entry = yaml.safe_load((resources.files("chronoscale.simulator") / "clusters" / "h200.yaml").read_text()) | changes
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in entry.items() if value is not None}))
    return path


def test_a_cluster_of_ones_own(tmp_path):
    assert presets.read(written(tmp_path, nodes=2)).gpus == 16
    device = presets.read(written(tmp_path, device=own())).device
    assert (device.h2d, device.sms, device.threads, device.memory_latency_s) == (Link(1e9, 0, 0.85), 0, 2048, 3e-7)
    chip = {"sms": 8, "threads": 1024, "memory_latency_s": 4e-7, "h2d": {"bandwidth": 1e9, "latency_s": 0, "efficiency": 0.9}}
    device = presets.read(written(tmp_path, device=own(**chip))).device
    assert (device.h2d, device.sms, device.threads, device.memory_latency_s) == (Link(1e9, 0, 0.9), 8, 1024, 4e-7)


def test_a_file_says_what_it_leaves_out(tmp_path):
    """And nothing of what it states."""
    left = {"intra": {"bandwidth": 450e9, "latency_s": 0}, "device": own(h2d={"bandwidth": 1e9, "latency_s": 0, "efficiency": 1.0})}
    cluster = presets.read(written(tmp_path, **left))
    assert "intra.efficiency: 0.8 of the line rate, as NVLink" in cluster.assumed and cluster.intra.efficiency == 0.8
    assert "device.sms: 0 SMs: its SMs are never full" in cluster.assumed
    assert "topology.fabric: no switch between machines is ever full" in cluster.assumed
    assert not any(line.startswith(("device.h2d", "inter", "topology.host", "topology.nvls", "nccl")) for line in cluster.assumed)
    minimal = presets.read(written(tmp_path, topology=None, device="nvidia-h100-sxm"))
    assert [line.split(":")[0] for line in minimal.assumed] == ["host_memory", "topology"]
    assert presets.cluster("a40-ib").assumed == ()


def test_a_device_of_ones_own_in_a_file_beside_the_clusters(tmp_path):
    (tmp_path / "chip.yaml").write_text(yaml.safe_dump(own(name="chip")))
    path = written(tmp_path, device="chip.yaml")
    assert presets.read(path).device.name == presets.contents(str(path))["device"]["name"] == "chip"
    with pytest.raises(UserError, match=r"none\.yaml: no such"):
        presets.read(written(tmp_path, device="none.yaml"))


@pytest.mark.parametrize("name", presets.names())
def test_presets_know_their_chips(name):
    device = presets.cluster(name).device
    assert (
        0.8 < device.h2d.efficiency < 0.9
        and device.sms > 0
        and device.capability >= 8
        and device.threads >= 1024
        and 1e-7 < device.memory_latency_s < 1e-6
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "nodes: expected at least 1 (got 0)"),
        ({"nodes": None}, "nodes: required, and not there"),
        ({"intra": {"bandwidth": "fast", "latency_s": 0}}, "intra.bandwidth: expected a number"),
        ({"intre": 1}, "unknown key 'intre'; did you mean 'intra'?"),
        ({"device": "nvidia-h100"}, "device: unknown device 'nvidia-h100'; did you mean 'nvidia-h"),
        ({"device": {"name": "X"}}, "device.memory: required, and not there"),
        ({"device": own(h2d={"bandwidth": 1e9, "latency_s": 0, "efficiency": 1.2})}, "device.h2d.efficiency: expected at most 1 (got 1.2)"),
        ({"device": own(h2d={"bandwidth": 1e9, "latency_s": 0, "efficiency": 0})}, "device.h2d.efficiency: expected more than 0 (got 0"),
        ({"device": own(sms=1.5)}, "device.sms: expected "),
        ({"device": own(threads=-1)}, "device.threads: expected at least 0 (got -1)"),
        ({"device": own(memory_latency="fast")}, "unknown key 'device.memory_latency'; did you mean 'device.memory_latency_s'?"),
        ({"intra": {"bandwidth": 1e9, "latency_s": 0, "efficiency": 1.1}}, "intra.efficiency: expected at most 1 (got 1.1)"),
    ],
)
def test_a_wrong_file_names_itself_and_the_key(tmp_path, changes, message):
    with pytest.raises(UserError) as error:
        presets.read(written(tmp_path, **changes))
    assert f"mine.yaml: {message}" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["- a\n- b", "nodes: [", "\x00"])
def test_what_is_not_a_cluster(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml: "):
        presets.read(tmp_path / "mine.yaml")


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="no such cluster file"):
        presets.read(tmp_path / "none.yaml")


def test_the_machine_at_hand():
    cluster = presets.local_cpu(2, 8e9, Link(1e9, 1e-5))
    assert (cluster.gpus, cluster.device.memory, cluster.device.streams) == (2, 4e9, CPU_STREAMS)
    assert cluster.device.stream_of(Lane.COMM) == cluster.device.stream_of(Lane.COMPUTE)
    with pytest.raises(UserError, match="at least one rank"):
        presets.local_cpu(0, 8e9, Link(1e9, 0))
