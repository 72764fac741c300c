"""Rival of models that predict links: scores of pairs of nodes from the events so far, without a network."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from chronoscale.datasets.arrays import Float64, Int32, Int64

PAIRS = 1 << 19  # scored at once, to bound memory


class LinkRival(ABC):
    """Prediction of links that trains no network: it scores a source's candidate destinations by the events before them.

    name, meaning: as of a `batching.rivals.rival.Rival`.
    """

    name: str
    meaning: str

    def scores(self, src: Int32, dst: Int32, known: Int64) -> Float64:
        """Score pairs, the higher the likelier: float64, the shape of dst [E, k]; -inf where dst is -1, an absent negative.

        src int32 [E]; known int64 [E]: of the pairs of row e, nothing but the first known[e] events of the stream is read.
        """
        result = np.full(dst.shape, -np.inf)
        size = max(PAIRS // max(dst.shape[1], 1), 1)
        for at in range(0, len(src), size):
            rows = slice(at, at + size)
            row, column = np.nonzero(dst[rows] >= 0)
            row += at
            result[row, column] = self._score(src[row].astype(np.int64), dst[row, column].astype(np.int64), known[row])
        return result

    @abstractmethod
    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        """Score pairs, all int64 [Q]: float64 [Q], finite."""
