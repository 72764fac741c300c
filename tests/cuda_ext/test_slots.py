"""Attention to sampled slots: against the formula in float64, on every backend and any number of threads."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import needs_cpu
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import backends, set_threads
from chronoscale.cuda_ext.operators.slots import MAX_SLOTS, Encoding, Slots, attend
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def place(backend: str, device: str) -> tuple[str, str]:
    """A backend and its device."""
    return backend, device


class Case(NamedTuple):
    """What `attend` is given; the leaves ask for gradients."""

    query: Tensor
    source: Tensor
    slots: Slots
    encoding: Encoding | None
    keep: Tensor | None

    def to(self, device: str, dtype: torch.dtype) -> Case:
        def moved(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            made = tensor.detach().to(device, dtype if tensor.is_floating_point() else tensor.dtype, copy=True)
            return made.requires_grad_(tensor.requires_grad)

        encoding = None if self.encoding is None else tuple(map(moved, self.encoding))
        return Case(moved(self.query), moved(self.source), Slots(*map(moved, self.slots)), encoding, moved(self.keep))  # type: ignore[arg-type]

    def leaves(self) -> list[Tensor]:
        return [t for t in (self.query, self.source, self.slots.edge, *(self.encoding or ())) if t is not None and t.requires_grad]


def case(
    targets: int = 40,
    fanout: int = 5,
    heads: int = 2,
    width: int = 7,
    edges: int = 0,
    clock: int = 6,
    sources: int = 11,
    keeps: bool = False,
    graded_edges: bool = True,
    longest: float = 10.0,
    seed: int = 0,
) -> Case:
    """Rows are met again and again; of the targets some have no slots, some all."""
    generator = torch.Generator().manual_seed(seed)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    full = torch.rand(targets, 1, generator=generator) * 1.5 - 0.25
    mask = torch.rand(targets, fanout, generator=generator) < full
    slot = torch.randint(0, max(sources, 1), (targets, fanout), generator=generator)
    elapsed = torch.rand(targets, fanout, generator=generator) * longest
    edge = random(targets, fanout, edges).requires_grad_(graded_edges) if edges else None
    encoding = (random(clock).requires_grad_(), random(clock).requires_grad_()) if clock else None
    keep = 2.0 * (torch.rand(targets, heads, fanout, generator=generator) < 0.5) if keeps else None
    query = random(targets, heads, width + edges + clock).requires_grad_()
    return Case(query, random(sources, width).requires_grad_(), Slots(slot, mask, elapsed, edge), encoding, keep)


def formula(of: Case) -> Tensor:
    """The sums, slot by slot."""
    query, source, (slot, mask, elapsed, edge), encoding, keep = of
    rows = []
    for t in range(len(query)):
        heads = []
        for h in range(query.shape[1]):
            near = [k for k in range(slot.shape[1]) if mask[t, k]]
            if not near:
                heads.append(0 * query[t, h])
                continue
            parts = [[source[slot[t, k]]] for k in near]
            for k, part in zip(near, parts, strict=True):
                if edge is not None:
                    part.append(edge[t, k])
                if encoding is not None:
                    part.append(torch.cos(encoding[0] * elapsed[t, k] + encoding[1]))
            x = torch.stack([torch.cat(part) for part in parts])
            weights = torch.softmax(x @ query[t, h], 0)
            heads.append((weights if keep is None else weights * keep[t, h, near]) @ x)
        rows.append(torch.stack(heads))
    return torch.stack(rows) if rows else torch.zeros_like(query)


def graded(sums: Tensor, of: Case) -> list[Tensor]:
    """The sums, and the gradients of a number that is made of them."""
    into = torch.arange(sums.numel(), dtype=torch.float64).sin().to(sums).view(sums.shape)
    return [sums.detach(), *torch.autograd.grad(sums, of.leaves(), into, materialize_grads=True)]


def close(actual: list[Tensor], expected: list[Tensor], tolerance: float = 1e-5) -> None:
    for mine, theirs in zip(actual, expected, strict=True):
        scale = max(1.0, float(theirs.abs().max()) if theirs.numel() else 0.0)
        torch.testing.assert_close(mine.double().cpu(), theirs.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


CASES = {
    "plain": {},
    "dropout": {"keeps": True},
    "edges": {"edges": 3},
    "edges without gradients": {"edges": 3, "graded_edges": False, "keeps": True},
    "no clock": {"clock": 0},
    "nothing but the clock": {"width": 0},
    "nothing but edges": {"width": 0, "clock": 0, "edges": 33},
    "one head": {"heads": 1},
    "three heads": {"heads": 3, "edges": 2},
    "five heads": {"heads": 5, "edges": 2},
    "wide": {"width": 100, "clock": 100, "edges": 50},
    "whole registers": {"width": 64, "clock": 32, "edges": 16},
    "one slot": {"fanout": 1},
    "many slots": {"fanout": 70, "targets": 9},
    "one row": {"sources": 1},
}


@pytest.mark.sample(30)
@pytest.mark.parametrize("name", CASES)
def test_sums_and_gradients_are_the_formulas(place: tuple[str, str], name: str) -> None:
    backend, device = place
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        mine, theirs = case(**CASES[name]).to(device, dtype), case(**CASES[name]).to("cpu", torch.float64)  # type: ignore[arg-type]
        close(graded(attend(*mine, backend=backend), mine), graded(formula(theirs), theirs), tolerance)


@pytest.mark.slow
@given(
    sizes=st.tuples(*(st.integers(low, high) for low, high in ((1, 30), (1, 9), (1, 5), (0, 40), (0, 20), (0, 40), (1, 9)))),
    keeps=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_sizes(sizes: tuple[int, ...], keeps: bool, seed: int) -> None:
    of = case(*sizes, keeps=keeps, seed=seed)
    theirs = of.to("cpu", torch.float64)
    expected = graded(formula(theirs), theirs)
    for backend in {"reference", "cpu"} & set(backends()):
        close(graded(attend(*of, backend=backend), of), expected)


def test_gradients_are_those_of_differences(place: tuple[str, str]) -> None:
    of = case(4, 3, 2, 3, 2, 3, keeps=True).to(place[1], torch.float64)

    def sums(query: Tensor, source: Tensor, edge: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
        return attend(query, source, of.slots._replace(edge=edge), (frequency, phase), of.keep, place[0])

    assert torch.autograd.gradcheck(sums, of.leaves())


@pytest.mark.parametrize("longest", [1e3, 1e6, 1e9])
def test_angles_are_right_however_many_turns_they_have(place: tuple[str, str], longest: float) -> None:
    """In float32 an angle of 1e9 is off by up to 32, and its cosine is anything."""
    mine = case(200, width=0, clock=50, fanout=1, heads=1, longest=longest).to(place[1], torch.float32)
    slots, (frequency, phase) = mine.slots, mine.encoding or pytest.fail()
    with torch.no_grad():
        frequency[0], phase[1] = 1.0, 0.0
    angle = slots.elapsed.double() * frequency.detach().double() + phase.detach().double()  # type: ignore[union-attr]
    sums = attend(*mine, backend=place[0])[:, 0]
    close([sums.detach()], [angle.cos().masked_fill(~slots.mask, 0).cpu()], 2e-7)
    by_phase = torch.autograd.grad(sums.sum(), phase)[0]
    close([by_phase], [-angle.sin().masked_fill(~slots.mask, 0).sum(0).cpu()], 1e-6)


@needs_cpu
@pytest.mark.parametrize("far", [2.0**31 - 200, 2.0**31 + 256, 1e20, 1e38])
def test_angles_beyond_any_clock_are_right(far: float) -> None:
    mine = case(3, width=0, clock=20, fanout=1, heads=1)
    slots = mine.slots._replace(elapsed=torch.full((3, 1), far), mask=torch.ones(3, 1, dtype=torch.bool))
    actual, expected = (attend(mine.query, mine.source, slots, mine.encoding, backend=name) for name in ("cpu", "reference"))
    close([actual.detach()], [expected.detach()], 3e-7)


@needs_cpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_threads_makes_the_same_bits(dtype: torch.dtype) -> None:
    of = case(900, 12, 2, 100, 9, 50, sources=300, keeps=True).to("cpu", dtype)
    set_threads(1)
    expected = graded(attend(*of, backend="cpu"), of)
    for count in range(2, 9):
        set_threads(count)
        gradients = graded(attend(*of, backend="cpu"), of)
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(gradients, expected, strict=True)), count


def test_heads_may_lie_apart_in_memory(place: tuple[str, str]) -> None:
    if place[0] == "reference":
        pytest.skip("the reference lays them together")
    of = case(30, edges=2).to(place[1], torch.float32)
    apart = of._replace(query=of.query.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_())
    sums = attend(*apart, backend=place[0])
    assert sums.transpose(0, 1).is_contiguous()
    gradients, expected = graded(sums, apart), graded(attend(*of, backend=place[0]), of)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(gradients, expected, strict=True))


@pytest.mark.parametrize(
    "sizes",
    [{"targets": 0}, {"fanout": 0}, {"width": 0, "clock": 0}, {"targets": 0, "sources": 0}, {"fanout": 0, "keeps": True, "edges": 2}],
)
def test_nothing_to_attend_to(place: tuple[str, str], sizes: dict[str, int]) -> None:
    of = case(**sizes).to(place[1], torch.float32)  # type: ignore[arg-type]
    for made in graded(attend(*of, backend=place[0]), of):
        assert not made.any()


def test_targets_without_slots_are_zeros_and_other_slots_are_not_read(place: tuple[str, str]) -> None:
    of = case(12, edges=3, keeps=True).to(place[1], torch.float32)
    slot, mask, elapsed, edge = of.slots
    mask[3:7] = False
    expected = graded(attend(*of, backend=place[0]), of)
    assert not expected[0][3:7].any() and not expected[1][3:7].any() and expected[0].any()
    assert elapsed is not None and edge is not None and of.keep is not None
    with torch.no_grad():
        slot[~mask], elapsed[~mask], edge[~mask] = 2**40, torch.inf, torch.nan
        of.keep.transpose(1, 2)[~mask] = torch.nan
    for mine, theirs in zip(graded(attend(*of, backend=place[0]), of), expected, strict=True):
        assert torch.equal(mine, theirs)


def test_no_rows_where_no_slot_is_there(place: tuple[str, str]) -> None:
    of = case(sources=0).to(place[1], torch.float32)
    of.slots.mask[:] = False
    assert not attend(*of, backend=place[0]).any()
    of.slots.mask[5, 2] = True
    if abi.on_cuda(of.query):
        sums = attend(*of, backend=place[0])
        assert sums[5].isnan().all() and not sums[:5].any() and not sums[6:].any()
        return
    with pytest.raises(UserError, match=r"slots that are mask must lie in \[0, 0\)"):
        attend(*of, backend=place[0])


def test_only_what_asks_for_gradients_gets_them(place: tuple[str, str]) -> None:
    if place[0] == "reference":
        pytest.skip("its products are of what is asked for together, and round otherwise")
    of = case(edges=2).to(place[1], torch.float32)
    for leaf in of.leaves():
        whole = graded(attend(*of, backend=place[0]), of)[1:]
        without_keep = Case(*of[:2], of.slots, of.encoding, None).to(place[1], torch.float32)
        for other, mine in zip(of.leaves(), without_keep.leaves(), strict=True):
            mine.requires_grad_(other is leaf)
        (made,) = graded(attend(*without_keep, backend=place[0]), without_keep)[1:]
        assert torch.equal(made, whole[[other is leaf for other in of.leaves()].index(True)])


def test_a_slot_outside_the_rows_is_an_error_in_either_pass() -> None:
    for backend in {"reference", "cpu"} & set(backends()):
        for wrong in (-1, 11, 2**40):
            of = case()
            of.slots.mask[2, 1] = True
            of.slots.slot[2, 1] = wrong
            with pytest.raises(UserError, match=r"slots that are mask must lie in \[0, 11\), the rows of source"):
                attend(*of, backend=backend)


def test_on_cuda_a_slot_outside_the_rows_spoils_its_target_alone(emulated_kernels: None) -> None:
    for wrong in (-1, 11, 2**40, -(2**62)):
        of = case(sources=11)
        of.slots.mask[2] = True
        of.slots.slot[of.slots.slot == 0] = 1
        of.slots.slot[2] = 0  # a row that no other target reads
        expected = graded(attend(*of, backend="cpu"), of)
        of.slots.slot[2, 1] = wrong
        gradients = graded(attend(*of, backend="cpu"), of)
        for mine, theirs in zip(gradients[:2], expected[:2], strict=True):  # sums and gradients of what heads want
            assert mine[2].isnan().all()
            assert torch.equal(mine[:2], theirs[:2]) and torch.equal(mine[3:], theirs[3:])
        close(gradients[2:3], [expected[2].index_fill(0, torch.tensor([0]), torch.nan)], 1e-6)


def test_targets_with_as_many_slots_as_may_be(place: tuple[str, str]) -> None:
    sizes = {"targets": 2, "fanout": MAX_SLOTS, "width": 4, "clock": 3, "edges": 2, "keeps": True}
    mine, theirs = case(**sizes).to(place[1], torch.float64), case(**sizes).to("cpu", torch.float64)  # type: ignore[arg-type]
    close(graded(attend(*mine, backend=place[0]), mine), graded(formula(theirs), theirs), 1e-11)


@needs_cpu
def test_slots_written_between_the_passes_do_no_harm() -> None:
    of = case()
    sums = attend(*of, backend="cpu")
    of.slots.slot[0] = 2**40
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sums.sum().backward()
    of = case()
    of.slots.mask[0] = True
    sums = attend(*of, backend="cpu")
    of.slots.slot.numpy()[0] = 2**40  # past torch's counting
    with pytest.raises((UserError, RuntimeError), match=r"slots that are mask|an id is out of range"):
        sums.sum().backward()


def test_what_does_not_fit_is_refused() -> None:
    of = case(edges=2, keeps=True)
    query, source, slots, encoding, keep = of
    assert encoding is not None and keep is not None and slots.elapsed is not None
    frequency, phase = encoding
    for wrong, message in (
        ({"query": query.half()}, r"query is torch.float16 .* expected contiguous torch.float32 \[T, h, X\] on cpu"),
        ({"query": query[0]}, r"query is .* expected contiguous"),
        ({"query": query.mT.contiguous().mT}, "query is .* not contiguous"),
        ({"query": query[:, :0]}, "keep is"),
        ({"query": query[:, :0], "keep": None}, "at least 1 head"),
        ({"source": source.double()}, "source is torch.float64"),
        ({"source": source[:, :3].contiguous()}, r"numbers, for 5 slots of 3 \+ 2 \+ 6"),
        ({"slots": slots._replace(slot=slots.slot.int())}, "slot is torch.int32"),
        ({"slots": slots._replace(slot=slots.slot[:3])}, r"expected contiguous torch.int64 \[T = 40, K\]"),
        ({"slots": slots._replace(mask=slots.mask.byte())}, "mask is torch.uint8"),
        ({"slots": slots._replace(mask=slots.mask[:, :2])}, "mask is"),
        ({"slots": slots._replace(elapsed=None)}, "no elapsed times"),
        ({"slots": slots._replace(elapsed=slots.elapsed.double())}, "elapsed is torch.float64"),
        ({"slots": slots._replace(elapsed=slots.elapsed.clone().requires_grad_())}, "elapsed asks for gradients"),
        ({"slots": slots._replace(edge=slots.edge[:, :1])}, "edge is"),  # type: ignore[index]
        ({"slots": slots._replace(edge=slots.edge.to("meta"))}, "edge is .* on meta"),  # type: ignore[union-attr]
        ({"encoding": (frequency, phase[:2])}, r"phase is .* \[C = 6\]"),
        ({"encoding": (frequency[None], phase)}, "frequency is"),
        ({"encoding": None}, r"\+ 2 \+ 0 "),
        ({"keep": keep[:, :1]}, "keep is"),
        ({"keep": keep.clone().requires_grad_()}, "keep asks for gradients"),
        ({"backend": "cuda"}, "backend 'cuda'"),
        ({"backend": "gpu"}, "unknown backend"),
    ):
        with pytest.raises(UserError, match=message):
            attend(**{**of._asdict(), **wrong})
    many = case(2, MAX_SLOTS + 1)
    with pytest.raises(UserError, match="at most 1024 slots"):
        attend(*many)
