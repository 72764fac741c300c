"""Labels of events, checked before node classification is trained on them."""

from __future__ import annotations

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def require_labels(stream: EventStream) -> Int64:
    """Check the labels of an event stream before node classification is trained on them; return them, int64 [M]. Raises UserError, naming
    the dataset, where there are none, one is negative, or there is only one class: classes are numbered from 0, and a single one leaves
    nothing to classify."""
    labels = stream.labels
    if labels is None or len(labels) == 0:
        reason = stream.account.get("labels", "its files hold none")
        raise UserError(f"dataset '{stream.name}' has no labels of events, which node classification needs: {reason}")
    least, most = int(labels.min()), int(labels.max())
    if least < 0:
        raise UserError(f"dataset '{stream.name}': label {least} of event {int(labels.argmin())} is below 0")
    if least == most:
        raise UserError(f"dataset '{stream.name}': every event has the label {least}, and node classification needs two classes or more")
    return labels
