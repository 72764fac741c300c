"""Attention: a softmax over the in-edges of every node, and the sum that it weighs."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.graph import CSR, row_ids

SLOPE = 0.2  # of the leaky ReLU (GAT, Velickovic et al., ICLR 2018)


def attention(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """sum_i alpha_ij z_i over the in-edges i -> j of each row j, alpha_ij = softmax_i leaky_relu(left_i + right_j); differentiable.

    z [C, H] and left [C] of all columns of `graph` [R, C], right [R] of its rows; returns [R, H]. Edge values are not read. Rows without
    entries give zeros. Scores are shifted by the largest of their row, so that no exponential overflows.
    """
    row, column = row_ids(graph.indptr), graph.indices.long()
    score = torch.nn.functional.leaky_relu(left[column] + right[row], SLOPE)
    top = torch.full_like(right, -torch.inf).scatter_reduce(0, row, score.detach(), "amax")
    weight = torch.exp(score - top[row])
    total = torch.zeros_like(right).index_add(0, row, weight)
    return torch.zeros(graph.num_rows, z.shape[1], dtype=z.dtype, device=z.device).index_add(
        0, row, (weight / total[row])[:, None] * z[column]
    )
