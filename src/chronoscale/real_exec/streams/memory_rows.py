"""MemoryRows: what the tables of node state hold of a batch's nodes before their messages are applied."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class MemoryRows(NamedTuple):
    """Rows of node memory and mailbox of the U nodes of a rank's batch, before messages are applied; S messages each.

    memory float32 [U, H]; mail float32 [U, S, W]: messages, the newest in the last slot; there bool [U, S]: the slot holds a message;
    elapsed float32 [U, S]: time of the message less that of the memory's last update; sent bool [U, S]: the node was the source of the
    message's event. A mailbox slot without a message is not read, but has to be finite.
    """

    memory: Tensor
    mail: Tensor
    there: Tensor
    elapsed: Tensor
    sent: Tensor
