"""Random walks on a static graph, and convolution with them: sum over k of theta_k (D_O^-1 W)^k + theta'_k (D_I^-1 W^T)^k (DCRNN eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.errors import UserError
from chronoscale.strategies.signals.forecasters import DENSE_NODES

SPARSE = (
    0.25  # share of a matrix's entries up to which sums over neighbours are faster on a CPU: one takes two to three times a dense entry's
)

CACHED = 1 << 18  # numbers of a CPU's own cache: a mebibyte


def inverse(values: Any) -> Any:
    """Return 1 / values, 0 where a value is 0, float64: degrees of nodes without neighbours are not divided by."""
    values = np.asarray(values, np.float64)  # `bincount` of no edges counts in whole numbers, whatever the weights
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)


def require_edges(edges: Int32, nodes: int) -> None:
    """Check the edges [2, E] of a signal's graph before a model is built. Raises UserError for edges that leave its nodes."""
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise UserError(f"edges name nodes 0 .. {nodes - 1}; found {edges.min()} .. {edges.max()}")


def transitions(edges: Int32, weight: Float32 | None, nodes: int, published: bool = False) -> tuple[Any, Any]:
    """Return the matrices of one random-walk step along and against the edges, for DCRNN's convolution: scipy CSR float64 [N, N] each.

    A node without neighbours gets zero. edges: [2, E], sources and destinations. weight: [E], None: 1. published: PyTorch Geometric
    Temporal's matrices: degrees are weighted, steps are not; a step sends x_i / degree_i along the edge, not the mean of neighbours; and
    against the edges, the e-th edge in order of (destination, source) is divided by the in-degree of the e-th source in the order given.
    Where that degree is zero, upstream has infinity and this zero. Raises UserError for edges that leave the graph.
    """
    import scipy.sparse  # noqa: PLC0415 (heavy, and models on signals alone take it)

    source, destination = edges.astype(np.int64)
    require_edges(edges, nodes)
    value = np.ones(edges.shape[1]) if weight is None else weight.astype(np.float64)
    leaving, entering = (np.bincount(ends, value, nodes) for ends in (source, destination))
    if not published:
        along = scipy.sparse.csr_matrix((value * inverse(leaving)[source], (source, destination)), (nodes, nodes))
        against = scipy.sparse.csr_matrix((value * inverse(entering)[destination], (destination, source)), (nodes, nodes))
        return along, against
    order = np.lexsort((source, destination))
    along = scipy.sparse.csr_matrix((inverse(leaving)[source], (destination, source)), (nodes, nodes))
    against = scipy.sparse.csr_matrix((inverse(entering)[source], (source[order], destination[order])), (nodes, nodes))
    return along, against


def as_tensor(matrix: Any) -> Tensor:
    """Convert a graph's matrix for a model on signals from scipy CSR to torch's CSR, float32."""
    parts = (torch.from_numpy(matrix.indptr).long(), torch.from_numpy(matrix.indices).long(), torch.from_numpy(matrix.data).float())
    return torch.sparse_csr_tensor(*parts, matrix.shape, check_invariants=False)


def as_csr(matrix: Any) -> CSR:
    """Convert a graph's matrix for the kernel of neighbour sums from scipy's to CSR with float32 values, on the host."""
    matrix = matrix.tocsr()
    matrix.sort_indices()
    parts = torch.from_numpy(matrix.indptr).long(), torch.from_numpy(matrix.indices).int(), torch.from_numpy(matrix.data).float()
    return CSR(*parts, matrix.shape[1])


class Walks(nn.Module):
    """Random walks of `hops` steps in both directions on a signal's graph, which DCRNN convolves with: T_k = P T_{k-1}.

    published: T_1 = P X, T_k = 2 P T_{k-1} - X. transposed: P^T in place of P, in both directions. On a CPU steps on graphs that are not
    nearly dense (SPARSE) are sums over neighbours, by the kernel of snapshots. Else small graphs have every T_k as one dense matrix
    [2 hops N, N], others P and its transpose in torch's CSR. Buffers, not trained.
    """

    def __init__(
        self, edges: Int32, weight: Float32 | None, nodes: int, hops: int, published: bool = False, transposed: bool = False
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.hops = hops
        self.published = published
        self.transposed = transposed
        forward, backward = ("backward", "forward") if transposed else ("forward", "backward")
        self.dense = nodes <= DENSE_NODES
        pair = transitions(edges, weight, nodes, published)
        if self.dense:
            powers = [power for step in pair for power in self._powers(torch.from_numpy(step.toarray()), torch.eye(nodes).double())]
            self._keep(f"{forward}_0", torch.cat(powers).float())
            self._keep(f"{backward}_0", torch.cat([power.T for power in powers]).float())
        for at, step in enumerate(() if self.dense else pair):
            self._keep(f"{forward}_{at}", as_tensor(step))
            self._keep(f"{backward}_{at}", as_tensor(step.T.tocsr()))
        sparse = max(step.nnz for step in pair) <= SPARSE * nodes**2
        self._neighbours = {forward: [as_csr(step) for step in pair], backward: [as_csr(step.T) for step in pair]} if sparse else {}

    @property
    def terms(self) -> int:
        """Return the number of terms of a diffusion convolution: the identity, and `hops` powers of the walk in each direction."""
        return 1 + 2 * self.hops

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def _matrix(self, way: str, at: int) -> Tensor:
        return cast(Tensor, getattr(self, f"{way}_{at}"))

    def _powers(self, step: Tensor | CSR, x: Tensor) -> list[Tensor]:
        powers: list[Tensor] = []
        for _ in range(self.hops):
            before = powers[-1] if powers else x
            after = aggregate(step, before) if isinstance(step, CSR) else step @ before
            powers.append(2 * after - x if self.published and powers else after)
        return powers

    def _on_cpu(self, x: Tensor) -> bool:
        """Return whether x is diffused by sums over neighbours."""
        return bool(self._neighbours) and x.device.type == "cpu" and x.dtype == torch.float32

    def _steps(self, way: str, x: Tensor) -> Sequence[CSR | Tensor]:
        """Return the matrices of one step along and against the edges, those that are the fastest where x lies; none: use the dense one."""
        if self._on_cpu(x):
            return self._neighbours[way]
        return [] if self.dense else [self._matrix(way, at) for at in range(2)]

    def windows_at_once(self, width: int, x: Tensor) -> int:
        """Return how many windows of a batch x [B, ...] are best diffused together, at least 1: all, but where neighbours' rows, of `width`
        numbers a window, are read from a CPU's cache.
        """
        return max(CACHED // (self.nodes * width), 1) if self._on_cpu(x) else max(len(x), 1)

    def spread(self, x: Tensor, way: str = "forward") -> list[Tensor]:
        """Return the diffusions of rows x [N, W] by random walks of 1 to `hops` steps: 2 hops tensors [N, W], along the edges, then
        against. No gradient.

        way: "backward" for the transposed walks.
        """
        if not (steps := self._steps(way, x)):
            return list((self._matrix(way, 0) @ x).view(2 * self.hops, *x.shape))
        return [power for step in steps for power in self._powers(step, x)]

    def gather(self, parts: list[Tensor]) -> Tensor:
        """Return, for a gradient, the sum of the transposed walks' products with `parts`, [N, W]: 2 hops tensors [N, W] in the order of
        `spread`.
        """
        if not (steps := self._steps("backward", parts[0])):
            return self._matrix("forward", 0).T @ torch.cat(parts)
        total = torch.zeros_like(parts[0])
        for at, step in enumerate(steps):
            later = torch.zeros_like(total)
            for k in range(self.hops - 1, -1, -1):  # Horner's scheme
                part = parts[at * self.hops + k] + later
                later = aggregate(step, part) if isinstance(step, CSR) else step @ part
                if self.published and k:
                    total -= part
                    later *= 2
            total += later
        return total

    def forward(self, x: Tensor) -> Tensor:
        """Map rows x [N, ..., F] to [N, ..., terms F]: x itself, then its diffusions by random walks.

        For narrow signals; keeps nothing for the backward pass.
        """
        return cast(Tensor, _Diffusion.apply(x, self))  # type: ignore[no-untyped-call]

    def convolve(self, x: Tensor, weight: Tensor, base: Tensor) -> Tensor:
        """Return the diffusion convolution of rows x [N B, F] plus `base` [N B, O]: base + sum over terms m of T_m x weight[m].

        weight: [terms, F, O]; term 0 is the identity.
        """
        return cast(Tensor, _Convolution.apply(x, weight, base, self))  # type: ignore[no-untyped-call]


class _Diffusion(torch.autograd.Function):
    """The autograd function of `Walks.forward`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, walks: Walks) -> Tensor:
        ctx.walks = walks
        return torch.cat([x, *(part.view(x.shape) for part in walks.spread(x.reshape(walks.nodes, -1)))], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        walks: Walks = ctx.walks
        first, *parts = gradients[0].chunk(walks.terms, -1)
        total = first + walks.gather([part.reshape(walks.nodes, -1) for part in parts]).view(first.shape)
        return total, None


class _Convolution(torch.autograd.Function):
    """Autograd function of `Walks.convolve`; it saves only x, not its diffusions.

    With G_m = T_m^T g, weight[m] gets x^T G_m, and x the sum of G_m weight[m]^T.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, base: Tensor, walks: Walks) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.walks = walks
        out = torch.addmm(base, x, weight[0])
        for part, matrix in zip(walks.spread(x.reshape(walks.nodes, -1)), weight[1:], strict=True):
            out.addmm_(part.view(x.shape), matrix)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        walks: Walks = ctx.walks
        g = gradients[0].contiguous()
        to_weight = torch.empty_like(weight)
        torch.mm(x.T, g, out=to_weight[0])
        to_x = g @ weight[0].T
        for m, part in enumerate(walks.spread(g.view(walks.nodes, -1), "backward"), 1):
            torch.mm(x.T, part.view(g.shape), out=to_weight[m])
            to_x.addmm_(part.view(g.shape), weight[m].T)
        return to_x, to_weight, g, None
