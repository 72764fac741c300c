"""Outcome: what was predicted of the events that are evaluated, on whichever ranks, and the scores of it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.arrays import Bool
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.event_numbers import EventNumbers, relative_to, row_index
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.ranks.collective import Collective

NAN = float("nan")


class Outcome:
    """Logits [n, width] of events `part`, zero where an event was not predicted here; `seen` bool [n]: those that some rank predicts."""

    def __init__(self, part: range, width: int, device: torch.device) -> None:
        self._part, self._logits, self.seen = part, torch.zeros(len(part), width, device=device), np.zeros(len(part), np.bool_)

    def add(self, events: EventNumbers, logits: Tensor) -> None:
        """Of this rank's events."""
        rows = row_index(relative_to(events, self._part.start))
        at = rows if isinstance(rows, slice) else sent(torch.from_numpy(rows), self._logits.device)
        self._logits[at] = logits.detach()

    def together(self, collective: Collective) -> None:
        """Those of all ranks, on all ranks."""
        collective.all_reduce(self._logits)

    def links(self, data: PreparedStream, there: Bool) -> dict[str, float]:
        """AP and AUC of each destination against its first negative; where there are more, MRR against the others. Each also of the events
        that training has not seen a node of, where there are any. `there` bool [n, width - 1]: negatives that are one."""
        logits = self._logits.cpu().numpy().astype(np.float64)
        if not np.isfinite(logits).all():
            return {"ap": NAN, "auc": NAN}
        negative = np.where(there, logits[:, 1:], -np.inf)
        events, span = data.whole.stream, slice(self._part.start, self._part.stop)
        new = data.new[events.src[span]] | data.new[events.dst[span]]
        return ranking.link_scores(logits[self.seen, 0], negative[self.seen], new[self.seen])

    def labels(self, data: PreparedStream) -> dict[str, float]:
        """Share of the labels that are right, and, of two kinds of them, the AUC."""
        logits, span = self._logits.cpu().numpy().astype(np.float64)[self.seen], slice(self._part.start, self._part.stop)
        if not np.isfinite(logits).all():
            return {"accuracy": NAN}
        assert data.whole.stream.labels is not None
        labels = data.whole.stream.labels[span][self.seen]
        found = {"accuracy": float((logits.argmax(1) == labels).mean())}
        if logits.shape[1] == 2 and 0 < labels.sum() < labels.size:
            found["auc"] = ranking.label_roc_area(logits[:, 1] - logits[:, 0], labels)
        return found
