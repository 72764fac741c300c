"""Delivery of mail: which nodes get the messages of an iteration's events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.arrays import Int32, Int64


class MailDelivery(NamedTuple):
    """Messages (mails) of one iteration's events by the nodes whose mailboxes get them, each to a node once. nodes int64 [U], ascending;
    to, event int64 [D], ascending by both: the index of a node in `nodes`, and the number of the event that the message is of."""

    nodes: Int64
    to: Int64
    event: Int64


def deliver_mail(source: IndexedStream, whole: range, fanout: int) -> MailDelivery:
    """Find which nodes get the message of each event of an iteration (`whole`): its two ends and the `fanout` latest neighbours that these
    had before the iteration (APAN §3.4, one hop)."""
    span = slice(whole.start, whole.stop)
    ends = np.stack([np.asarray(source.stream.src[span]), np.asarray(source.stream.dst[span])], axis=1)
    nodes, place = np.unique(ends, return_inverse=True)
    place = place.reshape(ends.shape)
    sampled = source.tcsr.sample(nodes.astype(np.int32), np.full(nodes.size, whole.start, np.int32), fanout)
    event = np.repeat(np.arange(whole.start, whole.stop, dtype=np.int64), 2)
    neighbours: Int32 = sampled.neighbor[place.ravel()]
    to = np.concatenate([ends.ravel(), neighbours.ravel()]).astype(np.int64)
    keys = (to << 32) | np.concatenate([event, np.repeat(event, fanout)])
    keys = np.unique(keys[to >= 0])
    receivers, positions = np.unique(keys >> 32, return_inverse=True)
    return MailDelivery(receivers, positions.astype(np.int64), keys & 0xFFFFFFFF)
