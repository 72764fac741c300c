"""FlareDTDG's memory model against what autograd keeps, against drawn graphs and partitions, and against DynaHB's planner."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.statistics import COLUMNS, SnapshotStatistics
from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import ModelledDynaHB
from chronoscale.strategies.flaredtdg.footprint import (
    MPNNSizes,
    dynagraph_footprint,
    dynahb_cache_bytes,
    dynahb_footprint,
    esdg_footprint,
    feature_bytes,
    rows_within_reach,
)
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

ROWS, HIDDEN, STEPS = 11, 5, 4


def counts(nodes: int, edges: list[int], active: int | None = None) -> SnapshotStatistics:
    """Statistics of these edges a snapshot; nothing changes."""
    zero = np.zeros(len(edges), np.int64)
    columns = dict.fromkeys(COLUMNS, zero) | {"edges": np.array(edges, np.int64)}
    return SnapshotStatistics(**columns | {"nodes": zero + (nodes if active is None else active)}, num_nodes=nodes)


def numbers(run) -> int:
    """Distinct numbers in tensors of `ROWS` rows that `run` saves for its backward pass."""
    saved: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape[:1] == (ROWS,) and tensor.shape != (ROWS, ROWS):  # not the adjacency
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tensors = run()  # alive, so that no memory is used twice
    del tensors
    return sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in saved.values())


def cells() -> torch.nn.ModuleList:
    return torch.nn.ModuleList(torch.nn.LSTMCell(HIDDEN, HIDDEN) for _ in range(2))


def step(stack, x, *state):
    """Both cells."""
    h1, c1 = stack[0](x, state[:2])
    return *(h1, c1), *stack[1](h1, state[2:])


def test_a_checkpointed_step_keeps_what_the_model_says() -> None:
    stack, inputs = cells(), [torch.randn(ROWS, HIDDEN, requires_grad=True) for _ in range(STEPS)]

    def run() -> object:
        state = tuple(torch.zeros(ROWS, HIDDEN, requires_grad=True) for _ in range(4))
        for x in inputs:
            state = checkpoint(step, stack, x, *state, use_reentrant=True)
        return state

    assert numbers(run) == STEPS * ROWS * MPNNSizes(3, HIDDEN).checkpoint


def test_a_step_without_checkpoint_keeps_gates_state_memory_and_its_tanh() -> None:
    """What autograd saves of separate kernels, less the states that a sequence starts from and the inputs, which convolutions put out."""
    stack = cells()
    inputs = [torch.randn(ROWS, HIDDEN, requires_grad=True) for _ in range(STEPS)]

    def run() -> object:
        state, states = tuple(torch.zeros(ROWS, HIDDEN, requires_grad=True) for _ in range(4)), []
        for x in inputs:
            state = step(stack, x, *state)
            states.append(state)
        return [(h * h).sum() for state in states for h in state[2:3]]  # reads the last output

    begin, unread = HIDDEN * (STEPS + 4), 2 * HIDDEN  # of the last memories their tanh alone is read
    assert numbers(run) == ROWS * (begin + STEPS * MPNNSizes(3, HIDDEN).recurrence - unread)


def test_convolutions_keep_sums_and_outputs() -> None:
    adjacency, features = torch.rand(ROWS, ROWS), torch.randn(ROWS, 3)
    weights = [torch.randn(width, HIDDEN, requires_grad=True) for width in (3, HIDDEN)]

    def run() -> object:
        x = features
        for weight in weights:
            x = torch.relu((adjacency @ x) @ weight)
        return x

    stack = MPNNSizes(3, HIDDEN)
    assert numbers(run) == ROWS * (stack.convolution(0) + stack.convolution(1))


def test_features_of_a_snapshot_are_the_papers_arithmetic() -> None:
    assert feature_bytes(111_100_000, 128) / 1.024e9 == pytest.approx(55.55), "printed 55.6"
    assert feature_bytes(111_100_000, 128) / 2**30 == pytest.approx(53, abs=0.05)


def test_terms_of_esdg_by_hand() -> None:
    footprint = esdg_footprint(counts(10, [3, 7, 5, 1]), MPNNSizes(2, 4), 2)
    assert footprint.adjacency == sum(WeightedCSR.nbytes_of(10, edges) for edges in (7, 5))
    assert footprint.inputs == 2 * 10 * 2 * 4
    assert footprint.kept == 2 * 10 * (4 + 4 * 4) * 4, "the first cell's input, state and memory of two"
    assert footprint.working == 10 * (2 * 7 * 4 + 4 * 4 + 4 * 4) * 4
    assert footprint.total == footprint.adjacency + footprint.inputs + footprint.kept + footprint.working


def test_terms_of_dynagraph_by_hand() -> None:
    footprint = dynagraph_footprint(counts(10, [3, 7, 5, 1]), MPNNSizes(2, 4), 3)
    assert footprint.adjacency == sum(WeightedCSR.nbytes_of(10, edges) for edges in (3, 7, 5))
    assert footprint.inputs == 3 * 10 * 2 * 4
    assert footprint.kept == 3 * 10 * (4 + 2 * 4 + 2 * 7 * 4 + 4) * 4, "outputs, the second layer's sums, cells, the last activation"


def test_one_rank_of_dynahb_holds_what_dynagraph_holds_and_features() -> None:
    stats = counts(1_000, [3_000, 1_500, 4_000])
    more = dynahb_footprint(stats, MPNNSizes(2, 4), 2, 1).total - dynagraph_footprint(stats, MPNNSizes(2, 4), 2).total
    assert more == pytest.approx(2 * feature_bytes(1_000, 2)), "features beside their sums"
    assert dynahb_cache_bytes(stats, 130, 1) == 3 * feature_bytes(1_000, 130)


def test_a_cache_is_of_every_row_within_its_hops() -> None:
    """Two parts, every node reads all of the other part's: two hops, or one, are everything; none is a part's own."""
    dense = counts(100, [100_000, 0])
    assert dynahb_cache_bytes(dense, 3, 2) == pytest.approx((2 * 100 + 100) * 3 * 4, rel=1e-6)
    assert dynahb_cache_bytes(dense, 3, 2, hops=0) == 2 * 100 * 3 * 4
    chain = counts(1_000_000, [1_000_000])
    assert dynahb_cache_bytes(chain, 1, 1_000, 3) == pytest.approx(4 * 1_000_000 * 4, rel=0.01), (
        "a degree of 1: a row a hop, on as many ranks"
    )


def test_dynahb_computes_lower_layers_for_rows_within_reach() -> None:
    stats, stack = counts(1_000, [3_000]), MPNNSizes(2, 4)
    own, one, two = rows_within_reach(stats, 4, 2)[:, 0]
    footprint = dynahb_footprint(stats, stack, 1, 4)
    assert own < one < two
    assert footprint.inputs == pytest.approx(two * 2 * 4)
    assert footprint.kept == pytest.approx((one * (2 + 4) + own * (4 + 4) + 1_000 * (2 * 7 * 4 + 4)) * 4)


@pytest.mark.parametrize("mean, ranks", [(0.8, 4), (3.0, 4), (1.5, 16)])
def test_reach_is_that_of_drawn_graphs_and_partitions(mean: float, ranks: int) -> None:
    """Rows within one and two hops of a part, followed edge by edge."""
    nodes, rng = 20_000, np.random.default_rng(7)
    edges = int(mean * nodes)
    src, dst = rng.integers(0, nodes, (2, edges))
    part = rng.permutation(np.arange(nodes) % ranks)
    sums = np.zeros(2)
    for rank in range(ranks):
        near = part == rank
        for hop in range(2):
            read = near.copy()
            read[src[near[dst]]] = True
            near = read
            sums[hop] += near.sum()
    active = len(np.unique(np.concatenate([src, dst])))
    expected = rows_within_reach(counts(nodes, [edges], active), ranks, 2)[:, 0]
    assert expected[0] == nodes
    assert expected[1:] == pytest.approx(sums, rel=0.05)


@pytest.mark.parametrize("ranks", [1, 3, 16])
def test_reach_is_what_dynahbs_planner_reads(ranks: int) -> None:
    stats = counts(50_000, [90_000, 20_000], active=30_000)
    work = Workload("x", stats, model_shape("wd-gcn", 8, hidden=8, layers=2), Hyper(group_size=1))
    assert work.groups == 1
    hops, rows = ModelledDynaHB().hops(work, ranks, 0), rows_within_reach(stats, ranks, 2)[:, 0]
    assert [*(part.sum() for part in hops.rows[::-1]), hops.inputs.sum()] == pytest.approx(rows, rel=1e-3)


@given(
    st.integers(2, 10**8), st.lists(st.integers(0, 10**9), min_size=1, max_size=5), st.integers(1, 64), st.integers(0, 4),
    st.floats(0.0, 1.0),
)  # fmt: skip
def test_reach_grows_with_hops_between_own_rows_and_all(nodes, edges, ranks, hops, share) -> None:
    rows = rows_within_reach(counts(nodes, edges, int(share * nodes)), ranks, hops)
    assert rows.shape == (hops + 1, len(edges)) and np.isfinite(rows).all()
    assert rows[0] == pytest.approx(nodes)
    assert (np.diff(rows, axis=0) >= -1e-6 * nodes).all() and (rows <= ranks * nodes * (1 + 1e-12)).all()
    if ranks == 1:
        assert rows == pytest.approx(np.full_like(rows, nodes))


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=12), st.data())
def test_the_heaviest_window_is_the_peak(edges, data) -> None:
    window = data.draw(st.integers(1, len(edges)))
    most = max(sum(edges[t : t + window]) for t in range(len(edges) - window + 1))
    footprint = esdg_footprint(counts(9, edges), MPNNSizes(1, 1), window)
    assert footprint.adjacency == window * WeightedCSR.nbytes_of(9, 0) + 8 * most


def test_published_size_takes_no_graph() -> None:
    """111.1 million nodes, 222 snapshots: features, ESDG and DynaHB beyond what Table 1 prints as lower bounds."""
    stats = counts(111_100_000, np.linspace(1, 1.6e9, 222).astype(np.int64).tolist())
    assert esdg_footprint(stats, MPNNSizes(128, 2), 88).total > 3.0e12
    assert dynahb_cache_bytes(stats, 128, 16) > 56.6e12


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: esdg_footprint(s, MPNNSizes(1, 1), 0), "window: expected 1..2 snapshots, got 0"),
        (lambda s: dynagraph_footprint(s, MPNNSizes(1, 1), 3), "window: expected 1..2 snapshots, got 3"),
        (lambda s: rows_within_reach(s, 0, 1), "at least 1 rank and 0 hops, got 0 and 1"),
        (lambda s: dynahb_cache_bytes(s, 1, 2, -1), "at least 1 rank and 0 hops, got 2 and -1"),
        (lambda s: MPNNSizes(0, 1), "inputs, hidden, convolutions and cells of at least 1, got MPNNSizes(inputs=0, hidden=1"),
    ],
)
def test_mistakes_name_what_was_given(call, message) -> None:
    with pytest.raises(UserError) as error:
        call(counts(5, [1, 2]))
    assert message in str(error.value)
