"""Random numbers for events, by counter: they depend on its number, the slot and the key, not on what was drawn before."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.randomness import uniform
from chronoscale.errors import UserError

SLOTS = 2**16  # draws that one event may have
FIXED_EPOCH = 2**32  # in place of an epoch's number, where what is evaluated draws its neighbours: the same ones in every epoch


@lru_cache(maxsize=1 << 12, typed=True)  # asked anew by every batch
def derive_key(seed: int, *purpose: int) -> int:
    """Derive a key of 64 bits for random draws from a seed and numbers that say what it is for, such as an epoch's. Raises UserError for a
    number below 0 or above 2^128 - 1."""
    for number in (seed, *purpose):
        if not 0 <= number < 2**128:
            raise UserError(f"a seed or an epoch is 0 or more and below 2^128, got {number}")
    return int(np.random.SeedSequence(seed, spawn_key=purpose).generate_state(1, np.uint64)[0])  # pads the seed to 128 bits


def draw_fraction(key: int, event: Int64, slot: int) -> Float64:
    """Draw a random number in [0, 1) for each event of a stream, float64 [B], by its number `event`, int64 [B], `key` and `slot` (which of
    an event's draws it is): the same in whatever batch or rank the event falls."""
    return uniform(event * SLOTS + slot + 1, key)


def draw_below(key: int, event: Int64, slot: int, bound: Int64 | int) -> Int64:
    """Draw a random integer in 0 .. bound - 1 (0 where the bound is less than 1) for each event of a stream, int64 [B], by its number
    `event`, int64 [B], `key` and `slot` (which of an event's draws it is). Each integer is as likely as another up to 2^-22."""
    return (draw_fraction(key, event, slot) * np.maximum(bound, 0)).astype(np.int64)


def draw_distinct(key: int, event: Int64, bound: Int64, count: Int64, width: int) -> Int64:
    """Draw `count` different integers of 0 .. bound - 1 for each event of a stream, every order of them as likely as another: int64 [B,
    width], -1 after them. event int64 [B]: the events' numbers, by which, and by `key`, they are drawn.

    Floyd's algorithm (Bentley, Floyd 1987, "A sample of brilliance"), all events at once, and a shuffle: without it the first slot would
    never hold the last numbers. count is at most bound and width; uses 2 x width slots.
    """
    numbers, rows = np.full((width, event.size), -1, np.int64), np.arange(event.size)
    every = bool((count == bound).all())  # then Floyd's has 0, 1, 2, … in quadratic time
    for slot in range(width):
        number = newest = bound - count + slot
        if not every:
            number = draw_below(key, event, slot, newest + 1)
            number = np.where((numbers[:slot] == number).any(axis=0), newest, number)
        np.copyto(numbers[slot], number, where=slot < count)
    for slot in range(width - 1):
        other = slot + draw_below(key, event, width + slot, count - slot)
        numbers[slot], numbers[other, rows] = numbers[other, rows], numbers[slot].copy()
    return numbers.T
