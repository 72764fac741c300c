"""NormalisedGraph: the matrix of a graph convolution on a signal's sensors, with self-loops (Kipf and Welling, ICLR 2017)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.real_exec.signals.forecast.walks import as_tensor, inverse, require_edges
from chronoscale.strategies.signals.forecasters import DENSE_NODES


def normalised_adjacency(edges: Int32, weight: Float32 | None, nodes: int) -> Any:
    """Return the matrix D^-1/2 (W + I)^T D^-1/2 of A3T-GCN's graph convolution, scipy CSR float64 [N, N], D the degrees of incoming edges.

    edges: [2, E], sources and destinations; weight [E], None: 1. A node that has a self-loop gets no other. Raises UserError for edges that
    leave the graph.
    """
    import scipy.sparse  # noqa: PLC0415 (heavy, and models on signals alone take it)

    require_edges(edges, nodes)
    unlooped = np.setdiff1d(np.arange(nodes), edges[0][edges[0] == edges[1]])
    source, destination = np.concatenate((edges.astype(np.int64), np.stack((unlooped, unlooped))), 1)
    value = np.concatenate((np.ones(edges.shape[1]) if weight is None else weight.astype(np.float64), np.ones(len(unlooped))))
    scale = np.sqrt(inverse(np.bincount(destination, value, nodes)))
    return scipy.sparse.csr_matrix((value * scale[source] * scale[destination], (destination, source)), (nodes, nodes))


class NormalisedGraph(nn.Module):
    """A signal's graph as the normalised matrix of a graph convolution.

    Small graphs have it as a dense matrix, others, and its transpose, in torch's CSR. Buffers, not trained.
    """

    def __init__(self, edges: Int32, weight: Float32 | None, nodes: int) -> None:
        super().__init__()
        matrix = normalised_adjacency(edges, weight, nodes)
        self.nodes, self.dense = nodes, nodes <= DENSE_NODES
        self.register_buffer("matrix", torch.from_numpy(matrix.toarray()).float() if self.dense else as_tensor(matrix), False)
        if not self.dense:
            self.register_buffer("transpose", as_tensor(matrix.T.tocsr()), False)

    def forward(self, x: Tensor) -> Tensor:
        """Return, for rows x [N, ...] of the sensors, each sensor's weighted sum over its neighbours and itself, of the same shape.

        Keeps nothing for the backward pass.
        """
        return cast(Tensor, _NeighbourSum.apply(x, self))  # type: ignore[no-untyped-call]

    def spread(self, x: Tensor, backward: bool = False) -> Tensor:
        """Return the product of the matrix, or of its transpose, with rows x [N, ...], of the same shape. No gradient."""
        way = self.matrix if not backward else self.matrix.T if self.dense else self.transpose
        return (cast(Tensor, way) @ x.reshape(self.nodes, -1)).view(x.shape)


class _NeighbourSum(torch.autograd.Function):
    """The autograd function of `NormalisedGraph.forward`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: NormalisedGraph) -> Tensor:
        ctx.graph = graph
        return graph.spread(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        graph: NormalisedGraph = ctx.graph
        return graph.spread(gradients[0], backward=True), None
