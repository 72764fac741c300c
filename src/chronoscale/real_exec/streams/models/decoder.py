"""Decoders: what embeddings of nodes say of links and of classes."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn


class LinkDecoder(nn.Module):
    """w relu(W_s h_s + W_d h_d + b) + c: the two-layer perceptron on [h_s, h_d] of TGAT's, TGN's and TGL's codes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.source = nn.Linear(hidden, hidden, bias=False)
        self.destination = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Logits [B, n] of src [B, H] with each of dst [B, n, H]; a source's part is computed once."""
        return cast(Tensor, self.score((self.destination(dst) + self.source(src)[:, None]).relu())).squeeze(2)


class NodeDecoder(nn.Module):
    """W_2 relu(W_1 h + b_1) + b_2: a node's class from its embedding (TGN §4, TGL)."""

    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits [B, classes] of rows [B, H]."""
        return cast(Tensor, self.outer(self.inner(rows).relu()))
