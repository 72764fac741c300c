"""Pending: what the tables of node state hold of a batch's nodes before their memory is brought up to date."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class MemoryRows(NamedTuple):
    """Rows of the U nodes of a batch; S mails each. What stands in the place of a mail that is not there is not read, but has to be finite.

    memory float32 [U, H]; mail float32 [U, S, W], the newest in the last slot; there bool [U, S]; elapsed float32 [U, S], time of the mail
    less that of the memory's last update; sent bool [U, S], whether the node was the source of the mail's event.
    """

    memory: Tensor
    mail: Tensor
    there: Tensor
    elapsed: Tensor
    sent: Tensor
