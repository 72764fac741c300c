"""Columns that hold something else than their place or name says: five swapped files and their like are asked about, by these words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_files import named_events, read_events

from chronoscale.datasets.formats.question import Question
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.errors import UserError

RNG = np.random.default_rng(5)
COUNT = 60
SRC, DST = RNG.integers(1, 20, COUNT).tolist(), RNG.integers(20, 30, COUNT).tolist()
UNIX = (1_289_241_911 + np.sort(RNG.integers(0, 10**6, COUNT))).tolist()
RELATIVE = np.sort(RNG.integers(0, 10**6, COUNT)).tolist()


def rows(*columns: list[Any], separator: str = " ") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def question(path: Path, content: str, **options: Any) -> Question:
    path.write_text(content)
    with pytest.raises(Question) as caught:
        open_dataset(path, **options)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    return caught.value


def answered(path: Path, doubt: Question, at: int) -> list[tuple[str, str, float]]:
    """The events of a file, read with one of the answers to its question; without a warning, which would fail."""
    answer = doubt.answers[at]
    return named_events(read_events(path, **({} if answer.format is None else {"format": answer.format}), **answer.options))


TRUE = [(str(u), str(v), t) for u, v, t in zip(SRC, DST, UNIX, strict=True)]


@pytest.mark.parametrize(
    ("name", "begin"), [("t.txt", ""), ("sx.txt", "# a comment\n"), ("t.csv", ""), ("out.x", "% asym\n"), ("r.edges", "")]
)
@pytest.mark.parametrize(("order", "named"), [((2, 0, 1), "time,src,dst"), ((0, 2, 1), "src,time,dst")])
def test_the_time_first_or_second(tmp_path: Path, name: str, begin: str, order: tuple[int, ...], named: str) -> None:
    """Ids near 1.29e9 and times of 20 to 29, in every format whose columns are known by place."""
    columns = [[SRC, DST, UNIX][at] for at in order]
    if name == "out.x":
        columns.insert(2, [1] * COUNT)
        named = ",".join([*named.split(",")[:2], "_weight", named.split(",")[2]])
    doubt = question(tmp_path / name, begin + rows(*columns, separator="," if name == "t.csv" else " "))
    field, end = (1, "source") if named.startswith("time") else (2, "destination")
    assert (
        f"field {field}, which is read as the {end}, holds {UNIX[0]:,} to {UNIX[-1]:,}, which looks like times since 1970; " in doubt.text
    )
    assert f"field {len(columns)}, which is read as the time, holds 20 to 29" in doubt.text
    assert f"say which: columns={named} (field {field} is the time), or columns=" in str(doubt)
    assert answered(tmp_path / name, doubt, 0) == TRUE


@pytest.mark.parametrize("scale", [1, 1000, 10**6, 10**9])
def test_in_every_unit(tmp_path: Path, scale: int) -> None:
    times = [time * scale for time in UNIX]
    assert "looks like times since 1970" in question(tmp_path / "t.txt", rows(times, SRC, DST)).text


def test_times_from_zero_on_that_are_read_as_ids(tmp_path: Path) -> None:
    doubt = question(tmp_path / "t.txt", rows(RELATIVE, SRC, DST))
    falls = sum(later < earlier for earlier, later in pairwise(DST)) / COUNT
    assert doubt.text == (
        "field 1, which is read as the source, never falls from row to row, and field 3, which is read as the time, "
        f"does in {falls:.0%} of the rows"
    )
    assert answered(tmp_path / "t.txt", doubt, 0) == [(u, v, t) for (u, v, _), t in zip(TRUE, RELATIVE, strict=True)]
    assert len(read_events(tmp_path / "t.txt", sort=True)) == COUNT  # events in no order are meant
    assert len(read_events(tmp_path / "t.txt", columns="src,dst,time", sort=True)) == COUNT


def test_sorted_sources_whose_times_are_in_order_are_no_question(tmp_path: Path) -> None:
    """An edge list by source, each source's events in time: it falls at a new source alone, which the notice of the order says."""
    src = [source for source in range(10) for _ in range(6)]
    times = [time for _ in range(10) for time in range(100, 700, 100)]
    for each in (times, RNG.permutation(COUNT).tolist()):  # or in no order: sources repeat more than times do
        (tmp_path / "t.txt").write_text(rows(src, DST, each))
        with pytest.warns(UserWarning, match="sorted by time"):
            assert len(read_events(tmp_path / "t.txt")) == COUNT


def test_one_time_for_everything(tmp_path: Path) -> None:
    doubt = question(tmp_path / "t.txt", rows(SRC, DST, [7] * COUNT))
    assert doubt.text == "field 3, which is read as the time, is 7 in every row"
    assert str(doubt).endswith("say which: columns=src,dst,weight (it is a weight), or columns=src,dst,time (that is meant)")
    assert read_events(tmp_path / "t.txt", columns="src,dst,time").t.tolist() == [7] * COUNT
    doubt = question(tmp_path / "t.csv", "from,to,time\n" + rows(["ann"] * 10, ["bob", "eve"] * 5, range(10), separator=","))
    assert doubt.text == "column 'from', which is read as the source, is ann in every row"
    doubt = question(tmp_path / "t.csv", "from,to,date\n" + rows(SRC, DST, ["2019-01-01"] * COUNT, separator=","))
    assert doubt.text == "column 'date', which is read as the time, is 2019-01-01 in every row"
    assert str(doubt).endswith("or src=from dst=to time=date (that is meant)")
    assert read_events(tmp_path / "t.csv", src="from", dst="to", time="date").t.tolist() == [1546300800] * COUNT


@pytest.mark.parametrize(("at", "end"), [(0, "source"), (1, "destination")])
def test_one_source_or_destination_for_everything(tmp_path: Path, at: int, end: str) -> None:
    columns = [SRC, DST, UNIX]
    columns[at] = [5] * COUNT
    doubt = question(tmp_path / "t.txt", rows(*columns))
    assert doubt.text == f"field {at + 1}, which is read as the {end}, is 5 in every row"
    assert "columns=src,dst,time (that is meant)" in str(doubt)
    assert len(read_events(tmp_path / "t.txt", columns="src,dst,time")) == COUNT
    (tmp_path / "t.txt").write_text(rows(*(column[:9] for column in columns)))
    assert len(read_events(tmp_path / "t.txt")) == 9  # nine events may well be of one person


def test_ids_that_are_fractions(tmp_path: Path) -> None:
    halves = [u + 0.5 for u in SRC]
    content = "src,dst,time,id1,id2\n" + rows(halves, DST, UNIX, SRC, DST, separator=",")
    doubt = question(tmp_path / "t.csv", content, format="table")
    assert doubt.text == f"column 'src', which is read as the source, holds fractions such as {SRC[0]}.5, which ids do not"
    assert doubt.answers[-1].shown == "src=src dst=dst time=time"
    assert answered(tmp_path / "t.csv", doubt, -1)[0] == (f"{SRC[0]}.5", str(DST[0]), UNIX[0])
    (tmp_path / "t.txt").write_text(rows(halves, DST, UNIX))
    with pytest.raises(UserError, match=rf"t\.txt:1: expected an integer node id, found {SRC[0]}\.5"):
        open_dataset(tmp_path / "t.txt")


def test_ids_that_are_dates(tmp_path: Path) -> None:
    days = [f"2019-01-{day:02d}" for day in range(1, 11)]
    doubt = question(tmp_path / "t.csv", "src,dst,time\n" + rows(days, SRC[:10], DST[:10], separator=","))
    assert doubt.text == "column 'src', which is read as the source, holds dates such as 2019-01-01"
    assert doubt.answers[0].shown == "src=dst dst=time time=src"
    assert [event[:2] for event in answered(tmp_path / "t.csv", doubt, 0)] == [event[:2] for event in TRUE[:10]]


def test_a_header_with_the_names_in_another_order(tmp_path: Path) -> None:
    doubt = question(tmp_path / "t.csv", "src,dst,time,label\n" + rows(UNIX, SRC, DST, [0, 1] * 30, separator=","))
    assert "column 'src', which is read as the source, holds 1,289," in doubt.text
    assert doubt.answers[0].shown == "time=src src=dst dst=time" and answered(tmp_path / "t.csv", doubt, 0) == TRUE


@pytest.mark.parametrize(
    "columns",
    [
        (SRC, DST, UNIX),
        (SRC, DST, RELATIVE),
        ([u + 10**9 for u in SRC], [v + 10**9 for v in DST], UNIX),  # ids of any size, numbered alike
        ([u + 10**9 for u in SRC], DST, UNIX),
        ([u + 10**9 for u in SRC], [v + 10**9 for v in DST], RELATIVE),
        (SRC, DST, [time * 10**9 for time in UNIX]),
        ([*range(COUNT)], DST, RELATIVE),  # new sources, in the order in which they come
        (SRC, [*range(COUNT)], UNIX),
    ],
)  # fmt: skip
def test_what_is_plausible_is_not_asked(tmp_path: Path, columns: tuple[list[int], ...]) -> None:
    (tmp_path / "t.txt").write_text(rows(*columns))
    assert len(read_events(tmp_path / "t.txt")) == COUNT


@given(pairs=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=30, unique=True))
def test_small_ids_with_unix_times_are_never_asked(pairs: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    src, dst = [u for u, _ in pairs], [v for _, v in pairs]
    if len({*src}) < 2 or len({*dst}) < 2:
        return
    path = tmp_path_factory.mktemp("t") / "t.txt"
    path.write_text(rows(src, dst, [UNIX[0] + i for i in range(len(pairs))]))
    assert len(read_events(path)) == len(pairs)


CONTACTS = [(str(u), str(v), t) for u, v, t in zip(SRC, DST, UNIX, strict=True)]
CLASSES = [["MP*1", "PC", "3B"][at % 3] for at in range(COUNT)]


@pytest.mark.parametrize("separator", ["\t", " ", ","])
@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ((UNIX, SRC, DST, CLASSES, CLASSES), "time,src,dst,_,_"),  # contacts of people with their classes
        ((SRC, DST, [1.5] * COUNT, UNIX), "src,dst,weight,time"),
        ((CLASSES, SRC, DST, UNIX), "_,src,dst,time"),
        ((SRC, CLASSES, DST, [*range(COUNT)], UNIX, CLASSES), "src,_,dst,_,time,_"),
    ],
)
def test_a_table_without_names_that_nobody_documents_is_asked_by_what_its_fields_hold(
    tmp_path: Path, columns: tuple[list[Any], ...], named: str, separator: str
) -> None:
    doubt = question(
        tmp_path / "contacts.csv", rows(*columns, separator=separator), **({"format": "plain"} if columns[0] is CLASSES else {})
    )
    assert doubt.text.startswith(f"line 1 has {len(columns)} fields ('") and "\t" not in doubt.text
    assert doubt.answers[0].options == {"columns": named}
    places = [named.split(",").index(role) + 1 for role in ("time", "src", "dst")]
    assert doubt.answers[0].meaning == "field {} is the time, {} the source, {} the destination".format(*places)
    assert answered(tmp_path / "contacts.csv", doubt, 0) == CONTACTS
    assert [answer.format for answer in doubt.answers[1:]] == (["network_repository", "konect"] if len(columns) == 4 else [])


def test_a_field_that_counts_the_rows_is_no_source(tmp_path: Path) -> None:
    numbers = [*range(1, COUNT + 1)]
    path = tmp_path / "contacts.csv"
    doubt = question(path, rows(numbers, SRC, DST, UNIX, CLASSES))
    assert [answer.options for answer in doubt.answers if answer.options] == [{"columns": "_,src,dst,time,_"}]
    assert answered(path, doubt, 0) == CONTACTS
    doubt = question(path, rows(numbers, SRC, DST, [1.5] * COUNT, UNIX))
    assert doubt.answers[0].options == {"columns": "_,src,dst,weight,time"}
    doubt = question(path, rows([3], [8], UNIX[:1], ["PC"]), format="plain")  # of one row none counts
    assert doubt.answers[0].options == {"columns": "src,dst,time,_"}


def test_fields_of_which_two_are_the_ends_are_all_offered(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    doubt = question(path, rows([7] * COUNT, SRC, DST, UNIX, CLASSES))
    named = ["src,dst,_,time,_", "src,_,dst,time,_", "_,src,dst,time,_"]
    assert [answer.options for answer in doubt.answers if answer.options] == [{"columns": one} for one in named]
    assert answered(path, doubt, 2) == CONTACTS


@pytest.mark.parametrize(
    "columns",
    [
        (UNIX, UNIX, SRC, DST),  # two fields of times
        (SRC, DST, RELATIVE, RELATIVE),  # none
        (UNIX, SRC, CLASSES, CLASSES),  # one of integers
        ([*UNIX[:-1], 5], SRC, DST, SRC),  # not all are times
    ],
)
def test_fields_that_do_not_show_what_they_are_are_an_error(tmp_path: Path, columns: tuple[list[Any], ...]) -> None:
    (tmp_path / "t.txt").write_text(rows(*columns))
    with pytest.raises(UserError, match=r"t.txt:1: 4 fields .*, expected 'src dst' or 'src dst time'; say what each is") as caught:
        open_dataset(tmp_path / "t.txt")
    assert not isinstance(caught.value, Question)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1289241990 7 25 PC", ":61: expected 5 fields, found 4"),
        ("1289241990 7 25 PC 3B 3B", ":61: expected 5 fields, found 6"),
        ("1289241990 7 PC PC 3B", ":61: expected a finite number, found 'PC'"),
    ],
)
def test_fields_that_are_skipped_hold_anything_and_are_there_all_the_same(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.txt").write_text(rows(UNIX, SRC, DST, CLASSES, CLASSES) + line + "\n")
    with pytest.raises(UserError, match=message):
        open_dataset(tmp_path / "t.txt", columns="time,src,dst,_,_")
