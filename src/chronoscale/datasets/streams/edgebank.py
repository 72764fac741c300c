"""EdgeBank, a baseline without training: a pair that was there before is predicted, any other is not."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Int32, Int64, require
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


class EdgeBank:
    """EdgeBank, a predictor of links without training: it memorises the pairs (src, dst) of an event stream with the events that they had
    (Poursafaei et al. 2022, §5).

    Memory: 16 bytes an event at most, beside the stream's times; some 57 while it is built, which sorts the pairs once. Raises UserError
    for a stream without events.
    """

    def __init__(self, events: EventStream) -> None:
        if len(events) == 0:
            raise UserError("EdgeBank needs a stream with events")
        self._t = np.asarray(events.t)
        keys = edge_keys.pack(events.src, events.dst)
        self._pairs, pair = np.unique(keys, return_inverse=True)
        self._met = (pair << 32) | np.arange(keys.size)  # by pair, then in time order
        self._met.sort()

    def scores(self, src: Int32, dst: Int32, known: Int64, window: float | None = None) -> Float32:
        """Predict links: score 1 for a pair that is among the first `known` events of the stream, else 0; float32, the shape of dst.

        src int32 [E], known int64 [E], dst int32 [E] or [E, k]; a dst of -1, where a negative is absent, scores -inf. With a `window`, in
        the stream's unit of time, a pair scores 1 only if its newest event lies no more than that before the newest known one, as in TGB's
        EdgeBank. Raises UserError for arrays that do not fit, `known` outside 0..M, or a window below 0.
        """
        require(src, "src", "int32", (None,))
        require(known, "known", "int64", (src.size,))
        require(dst, "dst", "int32", (src.size, *dst.shape[1:]))
        if ((known < 0) | (known > self._t.size)).any():
            raise UserError(f"known: expected 0..{self._t.size} events, got {known.min()}..{known.max()}")
        if window is not None and not window >= 0:
            raise UserError(f"the window of EdgeBank: expected 0 or more, got {window}")
        each = dst.size // max(src.size, 1)
        keys = edge_keys.pack(np.repeat(src, each), dst.ravel())
        scores = self._remembered(keys, np.repeat(known, each), window).astype(np.float32).reshape(dst.shape)
        scores[dst < 0] = -np.inf
        return scores

    def _remembered(self, keys: Int64, known: Int64, window: float | None) -> Bool:
        """Return a mask of the pairs, keys int64 [Q], that are among the first `known` events [Q] and, with a window, recent enough: bool
        [Q]."""
        pair = np.searchsorted(self._pairs, keys)
        pair[pair == self._pairs.size] = 0
        known_pair: Bool = self._pairs[pair] == keys
        pair, known = pair[known_pair], known[known_pair]
        newest = np.searchsorted(self._met, (pair << 32) | known) - 1  # this pair's newest known event, or an older pair's, or -1: the last
        newest_event = self._met[newest]
        remembered = (newest >= 0) & (newest_event >> 32 == pair)
        if window is not None:
            remembered &= self._t[np.maximum(known - 1, 0)] - self._t[newest_event & 0xFFFFFFFF] <= window
        known_pair[known_pair] = remembered
        return known_pair


def batch_starts(part: range, size: int) -> Int64:
    """Return, for each event of `part` (those that are predicted), how many events came before its batch, with `part` cut into batches of
    `size`: int64 [len(part)], what EdgeBank knows of. With `size` 1, all earlier events are known, those of the same time too. Raises
    UserError for a size below 1."""
    if size < 1:
        raise UserError(f"events a batch: expected 1 or more, got {size}")
    return part.start + np.arange(len(part)) // size * size
