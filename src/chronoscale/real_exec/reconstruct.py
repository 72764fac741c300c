"""Reconstruction: the full adjacency from its predecessor's and a difference map, on the device (REAL §4.3)."""

from __future__ import annotations

import torch

from chronoscale.cuda_ext.graph import CSR, Delta

CANCELLED = 1e-5  # relative: a removal cancels a weight up to rounding; no re-weighting shrinks one that far


def reconstruct(before: CSR, delta: Delta, variant: str) -> CSR:
    """Adjacency after `delta`, weights recomputed from the new degrees, so that it equals a fresh one bit for bit.

    `before` holds A + I without self-edges of its own. By sorting, O((E + Δ) log(E + Δ));
    columns ascend within a row.
    """
    columns, rows_before = before.num_cols, len(before.indptr) - 1
    device = before.indptr.device
    row = torch.repeat_interleave(torch.arange(rows_before, device=device), before.indptr.diff())
    changed = torch.repeat_interleave(delta.rows.long(), delta.indptr.diff())
    assert before.values is not None and delta.values is not None and delta.fresh is not None
    stays = torch.ones(rows_before, dtype=torch.bool, device=device)
    stays[delta.rows.long()] = delta.fresh == 0  # fresh rows come whole
    stays = stays[row]
    keys = torch.cat([(row * columns + before.indices)[stays], changed * columns + delta.indices])
    merged, place = torch.unique(keys, return_inverse=True)
    entries = len(keys) - len(changed)
    old = torch.zeros(len(merged), device=device).index_add_(0, place[:entries], before.values[stays])
    new = old.index_add(0, place[entries:], delta.values)
    # As published, a map holds changed edges alone, removals negative; the exact one re-weights kept edges, too.
    present = new > CANCELLED * old if variant == "exact" else (new - old >= 0)
    merged = merged[present]
    rows = torch.div(merged, columns, rounding_mode="floor")
    indices = merged - rows * columns
    factor = torch.bincount(indices, minlength=columns).double().rsqrt().float()
    values = factor[indices]
    if variant != "exact":
        values = values * torch.bincount(rows, minlength=rows_before).double().rsqrt().float()[rows]
    indptr = torch.zeros_like(before.indptr)
    indptr[1:] = torch.bincount(rows, minlength=rows_before).cumsum(0)
    return CSR(indptr, indices.int(), values, num_cols=columns)
