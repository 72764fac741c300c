"""Record of memory: which storages are the device's and which are pinned, who has used them, and whether in an order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from pretended.findings import Findings, Kind, here
from pretended.order import Line, Moment, Stream


@contextmanager
def unwatched() -> Iterator[None]:
    """Stop intercepting the thread's calls while the block lasts."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


class Use(NamedTuple):
    """A use of bytes [low, high) of a storage, at a moment, by a line of the package."""

    moment: Moment
    low: int
    high: int
    place: str


@dataclass(frozen=True)
class Place:
    """The place of a tensor in a storage, without keeping the storage alive."""

    storage: int
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> Place:
        return cls(tensor.untyped_storage()._cdata, tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())


@dataclass(eq=False)
class Block:
    """A storage. `home`: the stream that it was made on, None of memory of the host. `marked`: lines that its allocator was told of."""

    storage: torch.UntypedStorage  # held, so that none follows it unseen
    home: Stream | None
    pinned: bool = False
    made: str = ""
    floats: bool = False
    gradient: bool = False  # autograd made it, and marks it itself
    given: Stream | None = None  # on this stream, as a gradient to begin with, which autograd marks for other streams
    marked: set[int] = field(default_factory=set)
    strangers: dict[int, str] = field(default_factory=dict)  # lines that used it beside its home, and where
    reads: list[Use] = field(default_factory=list)
    writes: list[Use] = field(default_factory=list)


class Memory:
    """All storages that are the device's, or that it copies to and from. `default`: the stream outside of rows, whose memory stays."""

    def __init__(self, findings: Findings, default: Stream) -> None:
        self.findings, self.default = findings, default
        self._blocks: dict[int, Block] = {}
        self._at: dict[int, Place | Tensor] = {}  # what kernels were given the address of

    def block(self, tensor: Tensor) -> Block | None:
        """Return the record of a storage; None of a storage that only the host knows."""
        return self._blocks.get(tensor.untyped_storage()._cdata)

    def on_device(self, tensor: Tensor) -> bool:
        block = self.block(tensor)
        return block is not None and block.home is not None

    def pinned(self, tensor: Tensor) -> bool:
        block = self.block(tensor)
        return block is not None and block.pinned

    def make(self, tensor: Tensor, stream: Stream, gradient: bool = False) -> Tensor:
        """Take a storage for one that the device has just made, and written, on a stream."""
        self._put(tensor, stream, pinned=False)
        self._blocks[tensor.untyped_storage()._cdata].gradient = gradient
        self.use(tensor, stream, writes=True)
        return tensor

    def pin(self, tensor: Tensor) -> Tensor:
        """Take a storage for one that the device can copy from and to beside the host."""
        self._put(tensor, None, pinned=True)
        return tensor

    def release(self, tensor: Tensor) -> Tensor:
        """Take a storage for one of the host's again, of which the device knows nothing."""
        self._blocks.pop(tensor.untyped_storage()._cdata, None)
        return tensor

    def mark(self, tensor: Tensor, line: Line) -> None:
        """Note that a storage is used on a stream, as Tensor.record_stream does."""
        if (block := self.block(tensor)) is not None:
            block.marked.add(line.number)

    def address(self, tensor: Tensor, address: int) -> None:
        """Remember whose address a kernel is about to be given."""
        if tensor.numel():
            self._at[address] = tensor if self.block(tensor) is None else Place.of(tensor)

    def addressed(self, address: object) -> Tensor | None:
        """Return the tensor whose address was asked for last."""
        found = self._at.get(address) if isinstance(address, int) else None
        return self.tensor(found) if isinstance(found, Place) else found

    def tensor(self, place: Place) -> Tensor:
        """Return the tensor there."""
        found: Tensor
        with unwatched():
            found = torch.empty(0, dtype=place.dtype).set_(self._blocks[place.storage].storage, place.offset, place.size, place.stride)
        return found

    def known(self) -> set[int]:
        """Return the numbers of all storages."""
        return set(self._blocks)

    def bytes_of(self, number: int) -> Tensor:
        """Return what a storage holds, uint8."""
        return torch.empty(0, dtype=torch.uint8).set_(self._blocks[number].storage)

    def made(self, streams: Sequence[Stream]) -> set[int]:
        """Return the numbers of the storages that were made on these streams."""
        return {number for number, block in list(self._blocks.items()) if block.home in streams}

    def poisonable(self, number: int) -> bool:
        """Return whether a storage was made for floating point numbers."""
        return self._blocks[number].floats

    def forgotten(self, number: int) -> bool:
        """Return whether nobody but this record holds a storage."""
        return bool(torch._C._storage_Use_Count(self._blocks[number].storage._cdata) == 1)  # type: ignore[attr-defined]

    def use_all(self, number: int, line: Line, writes: bool) -> None:
        """Note a use of a whole storage."""
        with unwatched():
            whole = self.bytes_of(number)
        self.use(whole, line, writes)

    def use(self, tensor: Tensor, line: Line, writes: bool, gradient: bool = False) -> None:
        """Note a use by a line; `gradient`: by autograd."""
        block = self.block(tensor)
        if block is None or not tensor.numel():
            return
        low = tensor.storage_offset() * tensor.element_size()
        high = low + (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1) * tensor.element_size()
        place, moment = here(), line.tick()
        for other in (*block.writes, *(block.reads if writes else ())):
            if other.low < high and low < other.high and not line.follows(other.moment):
                self.findings.add(Kind.RACE, f"{'a write' if writes else 'a read'} beside {other.place}", place)
        if block.home not in (None, self.default, line) and line is not self.default:
            if gradient and (block.gradient or block.given not in (None, line)):
                block.marked.add(line.number)
            block.strangers.setdefault(line.number, place)
        uses = block.writes if writes else block.reads
        covered = [use for use in uses if line.follows(use.moment) and low <= use.low and use.high <= high]
        for use in covered:
            uses.remove(use)
        uses.append(Use(moment, low, high, place))

    def rewrite(self, number: int, line: Line) -> None:
        """Note that a line has written a graph's own memory, whatever was done with it before."""
        block = self._blocks[number]
        block.writes, block.reads = [Use(line.tick(), 0, block.storage.nbytes(), here())], []

    def close(self) -> None:
        """Find what another stream read and never marked, not even later: what is marked later was alive."""
        for block in self._blocks.values():
            for line, place in block.strangers.items():
                if line not in block.marked:
                    self.findings.add(Kind.UNMARKED, f"made at {block.made}", place)
        self._blocks.clear()
        self._at.clear()

    def _put(self, tensor: Tensor, home: Stream | None, pinned: bool) -> None:
        storage = tensor.untyped_storage()
        self._blocks[storage._cdata] = Block(storage, home, pinned, here(), tensor.is_floating_point())
