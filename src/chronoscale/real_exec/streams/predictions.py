"""Predictions: logits of the events that are evaluated, on whichever ranks, and their scores."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.arrays import Bool
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.event_numbers import EventNumbers, relative_to, row_index
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.records import write_atomically

NAN = float("nan")


class Predictions:
    """Logits [n, width] of the events `part` that ranks validate or test, zero where this rank did not predict an event.

    seen bool [n]: events that some rank predicts.
    """

    def __init__(self, part: range, width: int, device: torch.device) -> None:
        self._part = part
        self._logits = torch.zeros(len(part), width, device=device)
        self.seen = np.zeros(len(part), np.bool_)

    def add(self, events: EventNumbers, logits: Tensor) -> None:
        """Add the logits of events that this rank has predicted. events: their numbers in the stream."""
        rows = row_index(relative_to(events, self._part.start))
        at = rows if isinstance(rows, slice) else to_device(torch.from_numpy(rows), self._logits.device)
        self._logits[at] = logits.detach()

    def save(self, path: Path) -> None:
        """Write the logits as an array (.npy): float32 [n, width], of links the event's own and that of one negative, of labels all."""
        content = io.BytesIO()
        np.save(content, self._logits.cpu().numpy())
        write_atomically(path, content.getvalue())

    def all_reduce(self, collective: Collective) -> None:
        """Gather the logits of all ranks' predictions on all ranks."""
        collective.all_reduce(self._logits)

    def links(self, data: PreparedStream, there: Bool) -> dict[str, float]:
        """Return the scores of predicted links: AP and AUC of each destination against its first negative and, where there are more, MRR
        against the others.

        Each also for events with a node that training has not seen, where there are any. there bool [n, width - 1]: the negative exists.
        """
        logits = self._logits.cpu().numpy().astype(np.float64)
        if not np.isfinite(logits).all():
            return {"ap": NAN, "auc": NAN}
        negative = np.where(there, logits[:, 1:], -np.inf)
        events, span = data.whole.stream, slice(self._part.start, self._part.stop)
        new = data.new[events.src[span]] | data.new[events.dst[span]]
        return ranking.link_scores(logits[self.seen, 0], negative[self.seen], new[self.seen])

    def labels(self, data: PreparedStream) -> dict[str, float]:
        """Return the scores of predicted labels: accuracy and, where there are two kinds of them, the AUC."""
        logits, span = self._logits.cpu().numpy().astype(np.float64)[self.seen], slice(self._part.start, self._part.stop)
        if not np.isfinite(logits).all():
            return {"accuracy": NAN}
        assert data.whole.stream.labels is not None
        labels = data.whole.stream.labels[span][self.seen]
        scores = {"accuracy": float((logits.argmax(1) == labels).mean())}
        if logits.shape[1] == 2 and 0 < labels.sum() < labels.size:
            scores["auc"] = ranking.label_roc_area(logits[:, 1] - logits[:, 0], labels)
        return scores
