"""Files as the Temporal Graph Benchmark publishes them, for tests: a stream of users and items, and negatives by the rules of its public
generator (half of them met before, the others drawn); and the rank of its public evaluator."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd

HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"
Key = tuple[np.int64, np.int64, np.int64]


def columns_of(file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, destinations and times as TGB's loader takes them from its csv."""
    table = pd.read_csv(file, skiprows=1, header=None)
    src = table[0].to_numpy()
    return src, table[1].to_numpy() + int(src.max()) + 1, table[2].to_numpy().astype(int)


def masks_of(t: np.ndarray) -> dict[str, np.ndarray]:
    """Events of each part, as TGB splits them."""
    val_time, test_time = np.quantile(t, [1 - 0.15 - 0.15, 1 - 0.15])
    return {"train": t <= val_time, "val": (t <= test_time) & (t > val_time), "test": t > test_time}


def write_tgb(folder: Path, name: str = "tgbl-wiki", events: int = 300, users: int = 12, items: int = 14, k: int = 12) -> Path:
    """Write `NAME_edgelist_v2.csv`, `NAME_val_ns_v2.pkl` and `NAME_test_ns_v2.pkl` to a folder; return the first.

    Some events share a time, a source and a destination; some sources have met nobody in training; rows are shorter where few are left.
    """
    rng = np.random.default_rng(7)
    user = np.where(np.arange(events) < 0.7 * events, rng.integers(0, users - 2, events), rng.integers(0, users, events))
    item = np.where(rng.random(events) < 0.6, user % 3, rng.integers(0, items, events))
    user[:users], item[:items] = np.arange(users), np.arange(items)
    t = 1_300_000_000 + np.sort(rng.integers(0, events * 400, events)) // 600 * 600
    for column in (user, item, t):
        column[30::15] = column[29::15][: column[30::15].size]  # the event before, once more
    features = rng.normal(size=(events, 2)).round(3)
    rows = [f"{u},{i},{float(at)},0,{a},{b}" for u, i, at, (a, b) in zip(user, item, t, features, strict=True)]
    file = folder / f"{name}_edgelist_v2.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    src, dst, times = columns_of(file)
    masks = masks_of(times)
    for part in ("val", "test"):
        negatives = generate(rng, src, dst, times, masks["train"], masks[part], k)
        (folder / f"{name}_{part}_ns_v2.pkl").write_bytes(pickle.dumps(negatives, protocol=pickle.HIGHEST_PROTOCOL))
    return file


def generate(rng, src, dst, t, train: np.ndarray, part: np.ndarray, k: int) -> dict[Key, np.ndarray]:
    """Negatives of the events `part`, half of them of what their source met in training, none of what it meets at their time."""
    every, rows = np.arange(dst.min(), dst.max() + 1), {}
    for s, d, at in zip(src[part], dst[part], t[part], strict=True):
        now, met = dst[part & (src == s) & (t == at)], np.unique(dst[train & (src == s)])
        old = np.setdiff1d(met, now)
        count = min(k // 2, old.size)
        history = rng.choice(old, count, replace=False) if met.size else np.array([])  # of float64, as TGB's
        new = np.setdiff1d(every, np.concatenate([now, met]))
        rows[s, d, at] = np.concatenate([history, rng.choice(new, min(k - count, new.size), replace=False)])
    return rows


def evaluator_mrr(positive: list[float], negative: list[list[float]]) -> np.float32:
    """MRR of events, each beside its own negatives: half of those above and of those no lower, added to one; in float32, as TGB's."""
    ranks = []
    for own, others in zip(positive, negative, strict=True):
        above, level = sum(x > own for x in others), sum(x >= own for x in others)
        ranks.append(0.5 * (above + level) + 1)
    return np.mean(1 / np.array(ranks, np.float32), dtype=np.float32)
