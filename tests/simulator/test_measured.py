"""Networks from measurements: what benchmarks print is read, with file, line and reason where it cannot be, and links are fitted to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.network.measured.comparison import fit_and_compare
from chronoscale.simulator.network.measured.fit import Figures, fit, predicted
from chronoscale.simulator.network.measured.rates import MeasuredRate
from chronoscale.simulator.network.measured.reading import read_measurements
from chronoscale.simulator.network.measured.table import MeasuredTable, Setup
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import Op

H200 = presets.cluster("h200")
RANKS = "\n".join(
    f"#  Rank  {rank} Group  0 Pid  1{rank} on  node-{rank // 2} device  {rank % 2} [0x0{rank}] NVIDIA H200" for rank in range(4)
)
NCCL = f"""# source: https://example.org/1
# date: 2025-03-03
# nThread 1 nGpus 1 minBytes 8 maxBytes 4096 step: 2(factor)
# mpirun -x NCCL_ALGO=RING alltoall_perf -b 8
# Using devices
{RANKS}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float    none      -1    24.10    0.00    0.00      0    23.99    0.00    0.00    N/A
        4096           256     float    none      -1    25.20    0.16    0.12      0    24.99    0.16    0.12    N/A
     1048576         65536     float    none      -1    54.10   19.38   14.54      0    53.10   19.75   14.81    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 7.3
"""
OLD = """# nodes: 1 gpus_per_node: 8
# all_reduce_perf -b 8
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   536870912     134217728     float     sum     4200  127.83  223.70  2e-06     4201  127.80  223.65  2e-06
"""
OSU = """# nodes: 4 gpus_per_node: 1
# OSU MPI-CUDA All-to-All Personalized Exchange Latency Test v7.0
# Size       Avg Latency(us)
1                      12.31
1024                   20.00
"""
NVBANDWIDTH = """nvbandwidth Version: v0.4
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
          0         1         2
0     55.63     55.64     53.20

SUM host_to_device_memcpy_ce 164.47

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0       N/A    372.10
1    371.90       N/A

SUM device_to_device_memcpy_read_ce 744.00
"""
IB = """                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 2          5000           0.05               0.05                 3.1
 65536      5000           392.10             391.20               0.746
"""


def written(folder: Path, text: str, name: str = "measured.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def table(folder: Path, text: str) -> MeasuredTable:
    (result,) = read_measurements(written(folder, text))
    assert isinstance(result, MeasuredTable)
    return result


def test_a_table_of_nccl_tests(tmp_path: Path) -> None:
    """Sizes are of a rank's buffer, a quarter of which stays; the row of no bytes is none."""
    result = table(tmp_path, NCCL)
    assert (result.op, result.setup, result.source, result.date) == (
        Op.ALLTOALL,
        Setup(2, 2, "ring"),
        "https://example.org/1",
        "2025-03-03",
    )
    assert (result.bytes.tolist(), result.lines.tolist()) == ([3072, 786432], [15, 16])
    assert result.seconds.tolist() == pytest.approx([25.2e-6, 54.1e-6])
    gathered = table(tmp_path, NCCL.replace("alltoall_perf", "all_gather_perf"))
    assert gathered.bytes.tolist() == [1024, 262144]  # what each of four has brought


def test_a_table_of_an_older_version(tmp_path: Path) -> None:
    result = table(tmp_path, OLD)
    assert (result.op, result.setup, result.bytes.tolist()) == (Op.ALLREDUCE, Setup(1, 8), [536870912])


def test_a_table_of_osu(tmp_path: Path) -> None:
    """Sizes are of a pair: a rank sends three times as many."""
    result = table(tmp_path, OSU)
    assert (result.op, result.bytes.tolist()) == (Op.ALLTOALL, [3, 3072]) and result.seconds.tolist() == pytest.approx([12.31e-6, 20e-6])
    assert (
        table(tmp_path, OSU.replace("MPI-CUDA All-to-All Personalized Exchange Latency", "MPI-CUDA Allreduce Latency")).op is Op.ALLREDUCE
    )
    title = "All-to-All Personalized Exchange Latency"
    assert table(tmp_path, OSU.replace(title, "Allreduce Latency")).op is Op.ALLREDUCE
    assert table(tmp_path, OSU.replace(title, "Latency")).op is Op.SEND


def test_rates_of_links(tmp_path: Path) -> None:
    copies, peers = read_measurements(written(tmp_path, NVBANDWIDTH))
    assert isinstance(copies, MeasuredRate) and isinstance(peers, MeasuredRate)
    assert (copies.place, copies.rate, copies.line) == ("h2d", pytest.approx(55.63e9), 2)
    assert (peers.place, peers.rate) == ("intra", pytest.approx(372.0e9))
    (card,) = read_measurements(written(tmp_path, IB))
    assert isinstance(card, MeasuredRate) and (card.place, card.rate, card.line) == ("inter", pytest.approx(48.9e9), 4)
    (card,) = read_measurements(written(tmp_path, IB.replace("Gb/sec", "MB/sec").replace("391.20", "46636.2")))
    assert isinstance(card, MeasuredRate) and card.rate == pytest.approx(46636.2 * 2**20)


BAD = [
    (NCCL.replace("25.20    0.16    0.12      0    24.99    0.16    0.12    N/A", "25.20    0.16"), 15, "a row cut short: 7 columns of 13"),
    (NCCL.replace("(us)  (GB/s)  (GB/s)", ""), 13, "expected the units of the columns, (B), (us), (GB/s), got"),
    (
        NCCL.replace("54.10   19.38", "0.0541   19.38"),
        16,
        "1048576 bytes in 0.0541 µs are 1.94e+04 GB/s, not the 19.38 printed",
    ),
    (NCCL.replace("54.10   19.38", "fast   19.38"), 16, "expected numbers, got"),
    (NCCL.replace("54.10   19.38", "-1.0   19.38"), 16, "expected a time above 0 µs, got -1.0"),
    (NCCL.replace("alltoall_perf", "my_benchmark"), 12, "which operation? no line names the program"),
    ("\n".join(NCCL.splitlines()[:13]), 12, "a table without rows"),
    (NCCL + OLD, 22, "a second table; one a file"),
    (OLD.replace("gpus_per_node: 8", "gpus_per_node: 1"), None, "1 machines of 1 GPUs: two ranks are needed"),
    (OLD.replace("nodes: 1", "nodes: 0"), None, "0 machines of 8 GPUs: two ranks are needed"),
    (NCCL.replace(RANKS, ""), None, "it does not say what it ran on; add a line '# nodes: 2 gpus_per_node: 8'"),
    (NCCL.replace("on  node-0 device  1", "on  node-1 device  1"), None, "machines with 1 and 3 ranks"),
    (OSU.replace("All-to-All Personalized Exchange", "Allgatherv"), 2, "no test of links that is read here: 'allgatherv'"),
    (OSU.replace("All-to-All Personalized Exchange", "Non-blocking Allreduce"), 2, "no test of links that is read here: 'non-blocking"),
    (OSU.replace("Latency Test", ""), 1, "no test of links that is read here: 'no title'"),
    (OSU.replace("12.31", "0.00"), 4, "a latency that is no time"),
    (OSU.replace("12.31", "nan"), 4, "a latency that is no time"),
    (OSU.replace("(us)", ""), 3, "expected a column of latencies in (us)"),
    (OSU.replace("20.00", "soon"), 5, "expected a size and a latency, got '1024                   soon'"),
    (OSU.replace("All-to-All Personalized Exchange Latency", "Barrier Latency"), 2, "no test of links that is read here: 'barrier'"),
    ("\n".join(OSU.splitlines()[:3]), 3, "a table without rows"),
    (NVBANDWIDTH.split("0     55")[0], 2, "host_to_device_memcpy_ce: a matrix cut short"),
    (NVBANDWIDTH.replace("CPU(row) -> GPU(column) bandwidth (GB/s)", ""), 2, "host_to_device_memcpy_ce: a matrix cut short"),
    (NVBANDWIDTH.replace("_memcpy", "_memcpy_of_ours"), 1, "none of host_to_device_memcpy_ce"),
    (IB.replace("Gb/sec", "furlongs"), 2, "expected BW average in [Gb/sec]"),
    (IB.replace("             391.20               0.746", ""), 4, "a row cut short: 3 columns of 4"),
    (IB.replace("391.20", "n/a"), 4, "expected an average in column 4, got 'n/a'"),
    ("RDMA_Write BW Test", 1, "no table of ib_write_bw"),
    ("hello", None, "not an output of nccl-tests, an OSU micro-benchmark, nvbandwidth or ib_write_bw"),
]


@pytest.mark.parametrize(("text", "line", "reason"), BAD)
def test_what_cannot_be_read_names_file_line_and_reason(tmp_path: Path, text: str, line: int | None, reason: str) -> None:
    with pytest.raises(UserError) as error:
        read_measurements(written(tmp_path, text))
    where = f"measured.txt:{line}: " if line else "measured.txt: "
    assert f"{where}{reason}" in str(error.value) and "\n" not in str(error.value)


def test_no_link_is_faster_than_it_is_built() -> None:
    rate = MeasuredRate(Path("ib.txt"), 4, "inter", 61e9)
    with pytest.raises(UserError, match=r"^ib\.txt:4: 61 GB/s over inter of 50 GB/s: no link is faster than it is built"):
        fit(H200, [], [rate])
    assert fit(H200, [], [rate._replace(rate=49e9)]).inter.efficiency == pytest.approx(0.98)
    h20 = presets.cluster("h20")  # a card of 50 GB/s for two
    assert fit(h20, [], [rate._replace(rate=48e9)]).inter.efficiency == pytest.approx(0.96)
    assert fit(H200, [], [MeasuredRate(Path("x"), 1, "h2d", 50.4e9)]).device.h2d.efficiency == pytest.approx(0.8)


SIZES = 2 ** np.arange(3, 33, dtype=np.int64)
TRUE = Figures.of(H200)._replace(inside=0.7, across=0.8, inside_s=5e-6, across_s=9e-6, base=1.5, sends_across=3.0, sends_s=2e-5)


def made(truth: Cluster, noise: float, *cases: tuple[Op, int]) -> list[MeasuredTable]:
    """Tables as a cluster of known figures would give them, with noise."""
    random = np.random.default_rng(0)
    tables = [MeasuredTable(Path("made"), op, Setup(n, 8), np.arange(len(SIZES)), SIZES, np.ones(len(SIZES))) for op, n in cases]
    return [replace(one, seconds=predicted(truth, one) * np.exp(noise * random.standard_normal(len(SIZES)))) for one in tables]


def test_a_fit_finds_what_tables_were_made_with() -> None:
    tables = made(TRUE.put_into(H200), 0.02, (Op.ALLREDUCE, 1), (Op.ALLREDUCE, 4), (Op.ALLGATHER, 4), (Op.ALLTOALL, 4), (Op.ALLTOALL, 1))
    result = fit(H200, tables)
    for name in ("inside", "across", "inside_s", "across_s", "sends_across", "sends_s"):
        assert getattr(Figures.of(result), name) == pytest.approx(getattr(TRUE, name), rel=0.15), name
    assert max(np.median(np.abs(predicted(result, one) / one.seconds - 1)) for one in tables) < 0.05


def test_what_no_table_depends_on_stays() -> None:
    (inside,) = made(TRUE.put_into(H200), 0.0, (Op.ALLGATHER, 1))
    result = Figures.of(fit(H200, [inside]))
    usual = Figures.of(H200)
    assert (result.across, result.across_s, result.sends_across, result.sends_s, result.nvls) == pytest.approx(
        (usual.across, usual.across_s, usual.sends_across, usual.sends_s, usual.nvls)
    )
    whole = replace(H200, inter=replace(H200.inter, efficiency=1.0, latency_s=0.0))  # at the bounds of what is tried
    assert fit(whole, [inside]).inter == whole.inter and result.nvls_network == usual.nvls_network


def test_collectives_that_are_not_timed_as_nccl_builds_them_are_not_fitted() -> None:
    (wide,) = made(H200, 0.0, (Op.ALLREDUCE, 1))
    with pytest.raises(UserError, match=r"^made: 'h200' has collectives: alpha-beta; links are fitted by NCCL's model, leave the key out$"):
        fit(replace(H200, collectives="alpha-beta"), [wide])


def test_a_file_says_what_was_fitted_and_leaves_the_rest(tmp_path: Path) -> None:
    """A bus that was measured changes the device alone; who reads the file is told so by its origin."""
    copies = fit_and_compare("h200", [written(tmp_path, NVBANDWIDTH.partition("Running device_to")[0])])
    contents, usual = yaml.safe_load(copies.text), presets.contents("h200")
    assert contents["origin"] == f"{usual['origin']}; as measured: the device's h2d"
    assert all(contents[key] == usual[key] for key in usual if key not in ("origin", "device"))
    assert "# Fitted to:\n#   measured.txt: h2d, 55.63 GB/s\n" in copies.text and "Medians" not in copies.text
    inside = fit_and_compare("h200", [written(tmp_path, OLD)])
    contents = yaml.safe_load(inside.text)
    assert contents["origin"].endswith("; as measured: intra, nccl") and contents["inter"] == usual["inter"]
    assert contents["device"] == usual["device"]
    base = written(tmp_path, inside.text, "inside.yaml")
    again = fit_and_compare(str(base), [written(tmp_path, NVBANDWIDTH.partition("Running device_to")[0])])
    assert yaml.safe_load(again.text) == {
        **contents, "device": {**contents["device"], "h2d": yaml.safe_load(copies.text)["device"]["h2d"]},
        "origin": f"{contents['origin']}; as measured: the device's h2d",
    }  # fmt: skip


def test_a_cluster_too_small_for_what_was_measured() -> None:
    (wide,) = made(H200, 0.0, (Op.ALLREDUCE, 1))
    with pytest.raises(UserError, match=r"^made: measured with 8 GPUs a machine, and 'a40-ib' has 4$"):
        fit(presets.cluster("a40-ib"), [wide])


def test_part_of_a_machines_gpus_and_algorithms_that_were_asked_for() -> None:
    """Two of eight GPUs have a card each; a ring that was asked for is no faster than NVSwitch."""
    sizes = np.array([10**9])
    one = MeasuredTable(Path("x"), Op.ALLREDUCE, Setup(2, 2, "ring"), np.zeros(1, np.int64), sizes, np.ones(1))
    assert predicted(H200, one)[0] == pytest.approx(2 * 3 / 4 * 1e9 / (2 * 47e9), rel=0.02)
    eight = replace(one, setup=Setup(1, 8))
    setups = Setup(1, 8), Setup(1, 8, "ring"), Setup(1, 8, "", False)
    free, ring, apart = (predicted(H200, replace(eight, setup=setup))[0] for setup in setups)
    assert free < ring == apart


def test_the_file_that_is_written_predicts_as_the_fit_does(tmp_path: Path) -> None:
    """Its figures are rounded; what was fitted and what was held out have errors of their own."""
    more = [f"{size} 1 float none -1 {us} {size / us / 1e3:.2f} 0.1 0 {us} 0.1 0.1 N/A" for size, us in ((65536, 30.0), (8192, 25.3))]
    path = written(tmp_path, NCCL.replace("# Out of", "\n".join([*more, "# Out of"])))
    bandwidth = written(tmp_path, NVBANDWIDTH, "nvbandwidth.txt")
    result = fit_and_compare("h200", [path, bandwidth])
    cluster = presets.read(written(tmp_path, result.text, "fitted.yaml"))
    (error,) = result.errors
    assert dict(zip(error.table.bytes.tolist(), error.fitted.tolist(), strict=True)) == {
        3072: True,
        6144: False,
        49152: True,
        786432: False,
    }
    assert predicted(cluster, error.table) == pytest.approx(predicted(result.cluster, error.table), rel=2e-3)
    assert cluster.device.h2d.efficiency == pytest.approx(55.63 / 63, rel=1e-3) and cluster.intra.efficiency == pytest.approx(
        372 / 450, rel=1e-3
    )
    assert "https://example.org/1, 2025-03-03" in result.text and "held out" in result.text
    row = result.table.iloc[0]
    assert (row["operation"], row["machines"], row["gpus"], row["sizes"]) == ("ALLTOALL", 2, 4, 4)
    held_out = np.abs(error.errors[~error.fitted])
    assert row["held_out"] == pytest.approx(np.median(held_out)) and row["most"] == error.errors[np.abs(error.errors).argmax()]
    with pytest.raises(UserError, match="rates of links are not compared with"):
        fit_and_compare("h200", [path], [bandwidth])


PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "networks"


@pytest.mark.parametrize("system", sorted(folder.name for folder in PUBLISHED.iterdir()))
def test_published_tables_are_predicted_where_they_were_not_fitted_to(system: str) -> None:
    """Every other size of each; and each says where and when it was published."""
    result = fit_and_compare(str(PUBLISHED / system / "base.yaml"), sorted((PUBLISHED / system).glob("*.txt")))
    assert result.errors and all(error.median(False) <= 0.15 for error in result.errors)
    assert all(error.table.source.startswith("https://") and "20" in error.table.date for error in result.errors)
    assert all(abs(int(error.fitted.sum()) * 2 - len(error.table)) <= 1 for error in result.errors)
