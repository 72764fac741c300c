"""The Temporal Graph Benchmark's files by their names, against TGB's own rules written out line by line."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.formats.tables import text_table
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

WIKI = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,0.5,-1\n2,0,36.0,1,0.25,3\n1,1,40.5,0,1,2\n"
UCI = "u,i,ts,label,idx\n1,4,1082040961.0,0.0,1\n3,1,1082040961.9,0.0,2\n1,1,1082155839.0,0.0,3\n"  # no node 0 or 2, no item 0, 2 or 3
REVIEW = "ts,source,target,weight\n10,A1,B7,5.0\n10,A2,B7,0\n12,A1,A2,3\n"
COIN = "day,src,dst,callsign,typecode\n1648811421,0x27c,0x842,800.0\n1648811422,0x842,0x27c,0\n1648811422,0x9,0x842,.5\n"
COMMENT = "ts,src,dst,subreddit,num_words,score\n100,7,3,12,2500,-4\n101,3,9,12,10,1\n"
SHORT = "ts,src,dst,words,score\n100,7,3,2500,-4\n101,3,9,10,1\n"
FLIGHT = (
    'day,src,dst,callsign,typecode\n2019-01-01,EGLL,KJFK,BAW1,B744\n2019-01-01,KJFK,"E,X",,A320-200NEO\n2019-01-03,EGLL,EGLL,dlh12345,\n'
)
STAMPED = FLIGHT.replace("2019-01-01", "1546300800").replace("2019-01-03", "1546473600")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def letters(text: str) -> list[float]:
    return [float(c) if c.isdigit() else -1.0 if c == "!" else ord(c.upper()) - 44 + 9 for c in text]


def expected_columns(name: str, text: str) -> tuple[list[int], list[int], list[float], list[list[float]]]:
    """Sources, destinations, times and features."""
    rows, nodes = list(csv.reader(io.StringIO(text)))[1:], dict[str, int]()
    if name in ("tgbl-wiki", "tgbl-uci"):
        items = max(int(row[0]) for row in rows) + 1
        features = [[float(entry) for entry in row[4:]] for row in rows]
        return [int(row[0]) for row in rows], [int(row[1]) + items for row in rows], [int(float(row[2])) for row in rows], features
    ends = [[nodes.setdefault(name, len(nodes)) for name in row[1:3]] for row in rows]
    days = {"2019-01-01": 1546300800, "2019-01-03": 1546473600}
    times = [float(days.get(row[0], 0) or row[0]) for row in rows]
    features = []
    for row in rows:
        if name in ("tgbl-coin", "tgbl-review"):
            features.append([math.log2(float(row[3]) or 1)])
        elif name == "tgbl-comment":
            features.append([float(row[-2]) / 5000, float(row[-1])])
        else:
            features.append(letters(row[3].ljust(8, "!")) + letters("!" * 8 if len(row[4]) > 8 else row[4].ljust(8, "!")))
    return [end[0] for end in ends], [end[1] for end in ends], times, features


@pytest.mark.parametrize("entries", [1 << 18, 8])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tgbl-wiki_edgelist_v2.csv", WIKI),
        ("tgbl-uci_edgelist.csv", UCI),
        ("tgbl-review_edgelist_v3.csv", REVIEW),
        ("tgbl-review_edgelist.csv.gz", REVIEW),
        ("tgbl-coin_edgelist_v2.csv", COIN),
        ("tgbl-coin_edgelist_sorted.csv", COIN),
        ("tgbl-comment_edgelist.csv", COMMENT),
        ("tgbl-comment_edgelist.csv", SHORT),
        ("tgbl-flight_edgelist.csv", FLIGHT),
        ("tgbl-flight_edgelist_v2.csv", STAMPED),
    ],
)
def test_every_file_is_read_as_tgb_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, name: str, text: str) -> None:
    monkeypatch.setattr(text_table, "ENTRIES", entries)
    path = write(tmp_path, name, text)
    assert detect(path) == "tgb"
    events = open_dataset(path)
    assert isinstance(events, EventStream)
    dataset = name.split("_")[0]
    src, dst, times, features = expected_columns(dataset, text)
    assert_array_equal(events.src, src)
    assert_array_equal(events.dst, dst)
    assert_array_equal(events.t, times)
    assert_allclose(events.features, features, rtol=1e-6)  # type: ignore[arg-type]
    assert (events.name, events.account["reader"]) == (dataset, "tgb")
    if dataset == "tgbl-comment":
        assert_array_equal(events.node_ids, [7, 3, 9])
        assert events.account["dropped"] == (["column 4"] if text == COMMENT else [])
    elif dataset in ("tgbl-wiki", "tgbl-uci"):
        users = max(src) + 1
        assert_array_equal(events.node_ids, [*range(users), *range(max(dst) + 1 - users)])
    else:
        assert events.node_ids is None and events.num_nodes == len({*src, *dst})


@pytest.mark.parametrize("entries", [1 << 18, 8])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tgbl-wiki_edgelist_v2.csv", WIKI.replace("36.0", "nan"), ":3: expected a finite number, found 'nan'"),
        ("tgbl-wiki_edgelist_v2.csv", WIKI.replace("\n2,0", "\n-2,0"), ":3: node id -2 is below 0"),
        ("tgbl-wiki_edgelist_v2.csv", WIKI.replace("\n2,0", "\n4000,0"), ": 3 events with node ids up to 4000: TGB numbers nodes by"),
        ("tgbl-wiki_edgelist_v2.csv", WIKI.replace("40.5", "1e300"), ": times reach 1e+300, and TGB's are whole numbers up to 2**53"),
        ("tgbl-wiki_edgelist_v2.csv", "u,i,t\n0,1,2\n", ":2: expected user,item,time,label,features…, found 3 fields"),
        ("tgbl-coin_edgelist.csv", COIN.replace("1648811422", "noon", 1), ":3: expected a time, found 'noon'"),
        ("tgbl-coin_edgelist.csv", COIN.replace("1648811422", "inf", 1), ":3: expected a time, found 'inf'"),
        ("tgbl-coin_edgelist.csv", COIN.replace(",.5", ",-1"), ":4: expected a weight of 0 or more, found -1"),
        ("tgbl-coin_edgelist.csv", COIN.replace(",.5", ",nan"), ":4: expected a weight, found 'nan'"),
        ("tgbl-coin_edgelist.csv", COIN.replace(",.5", ""), ":4: expected 4 fields, found 3"),
        ("tgbl-coin_edgelist.csv", COIN.replace(",.5", ",1,2"), ":4: expected 4 fields, found 5"),
        ("tgbl-coin_edgelist.csv", COIN.replace("0x9", ""), ":4: expected a node, found ''"),
        ("tgbl-coin_edgelist.csv", COIN.replace("1648811421", "1648811423"), ":3: time 1648811422 is before the 1648811423"),
        ("tgbl-review_edgelist.csv", "ts,source,target\n1,2,3\n", ":2: expected time,src,dst,weight, found 3 fields"),
        ("tgbl-comment_edgelist.csv", COMMENT.replace(",10,1", ",10,x"), ":3: expected a score, found 'x'"),
        ("tgbl-comment_edgelist.csv", COMMENT.replace(",10,1", ",x,1"), ":3: expected a number of words, found 'x'"),
        ("tgbl-flight_edgelist.csv", FLIGHT.replace("2019-01-03", "2019-13-03"), ":4: expected a day, found '2019-13-03'"),
        ("tgbl-flight_edgelist.csv", FLIGHT.replace("B744", "Bé"), ":2: expected letters and digits of ASCII, found 'Bé'"),
        ("tgbl-coin_edgelist.csv", "", ": no data"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, name: str, text: str, message: str
) -> None:
    monkeypatch.setattr(text_table, "ENTRIES", entries)
    path = write(tmp_path, name, text)
    with pytest.raises(UserError) as caught:
        open_dataset(path, strict=True)
    assert str(caught.value).startswith(f"{path}{message}") and "\n" not in str(caught.value)


def test_names_that_are_none_and_events_out_of_order(tmp_path: Path) -> None:
    path = write(tmp_path, "tgbl-coins_edgelist.csv", COIN)
    with pytest.raises(UserError, match="unknown dataset of TGB: 'tgbl-coins'; did you mean 'tgbl-coin'"):
        open_dataset(path, "tgb")
    path = write(tmp_path, "tgbl-coin_edgelist.csv", COIN.replace("1648811421", "1648811423"))
    with pytest.warns(ChronoscaleWarning, match=r"csv:3: time 1648811422 is before .*field 1 is read as the time; sorted by time: 1 of 3"):
        events = open_dataset(path)
    assert isinstance(events, EventStream)
    assert_array_equal(events.src, [1, 2, 0])  # numbered before they are sorted, as TGB's readers never sort
    assert_array_equal(events.features, [[0], [-1], [np.float32(math.log2(800))]])
