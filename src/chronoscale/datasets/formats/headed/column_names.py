"""Names of columns: what the header of a table calls sources and destinations, times, labels, weights, features and sensors."""

from __future__ import annotations

import re
from typing import NamedTuple


class Pair(NamedTuple):
    """Words for the two ends of an event that go together. apart: they name two kinds of things, whose ids are two id spaces."""

    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    apart: bool = False


ITEMS = ("item", "product", "movie", "page", "song", "track", "artist", "book", "business", "article", "resource")
PAIRS = (
    Pair(("src", "source"), ("dst", "dest", "destination", "target")),
    Pair(("from", "from node", "sender", "author"), ("to", "to node", "receiver", "recipient")),
    Pair(("user", "u", "customer", "reviewer", "reader", "listener"), (*ITEMS, "i"), apart=True),
    Pair(("u",), ("v",)),
    Pair(("i",), ("j",)),
    Pair(("origin",), ("destination", "dest")),
    Pair(("start station",), ("end station",)),
    Pair(("head",), ("tail",)),
    Pair(("subject",), ("object",)),
    Pair(("caller",), ("callee",)),
    Pair(("follower",), ("followee",)),
    Pair(("rater",), ("ratee",)),
    Pair(("buyer",), ("seller",)),
    Pair(("payer",), ("payee",)),
    Pair(("node1", "node 1"), ("node2", "node 2")),
)
TIMES = (
    *("time", "timestamp", "date", "datetime", "date time", "time stamp", "ts", "t", "when", "day", "unixtime", "unix time", "unixts"),
    *("epoch", "created at", "event time", "time utc", "timestamp utc", "timestamp ms", "ts ms", "time ms"),
)
LABELS = ("label", "state label", "class")
WEIGHTS = ("weight", "w")
FEATURE = re.compile(r"(feature|feat|f|x) ?\d+|features?")
SENSORS = (
    *("sensor", "station", "detector", "location", "site", "meter", "device", "node", "counter", "road", "segment", "place", "region"),
    *("county", "city", "airport", "household", "building", "series"),
)
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
SHORTEST = 3  # letters of a month's name
IDENTIFIERS = ("id", "ids", "no", "nr", "number", "name", "key", "code", "idx", "node", "address", "account", "user", "fips")


def plain_words(name: str) -> str:
    """Return a column's name in small words: `UserID` and `user_id` are both `user id`."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"[_.\-]+", " ", name)).lower().split())


def means(name: str, words: tuple[str, ...]) -> bool:
    """Return whether a column's name is one of these words, alone or before what says that it identifies something: of `user` also `userId`
    and `user_name`."""
    plain = plain_words(name)
    begin, _, last = plain.rpartition(" ")
    return plain in words or (last in IDENTIFIERS and begin in words)


def find_month(name: str) -> int | None:
    """Return the month, from 0, of which a column's name is the name or its first letters: 8 of `Sep`, `sept.` and `SEPTEMBER`."""
    plain = plain_words(name)
    return next((at for at, month in enumerate(MONTHS) if len(plain) >= SHORTEST and month.startswith(plain)), None)


def is_feature(name: str) -> bool:
    """Return whether a column's name is one of many features: `f0`, `feature_12`, `feat3`."""
    return FEATURE.fullmatch(plain_words(name)) is not None
