"""Dates as text: ISO, localised (day or month first), or with the month's name, read by one rule for a whole column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int64

if TYPE_CHECKING:
    import pandas as pd

MICROSECONDS = 1_000_000  # in a second
LOCAL = r"^(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4}|\d{2})(?:(?:,? +|T)(.+))?$"
TIME_OF_DAY = (
    r"(?:\d:\d\d(?::\d\d)?|[T ]\d\d(?:\d\d){0,2})(?:[.,]\d+)?(?:\s*[AaPp]\.?[Mm]\.?)?"  # 9:15, T0915 and T09, but not the year 2020
)
ZONE = TIME_OF_DAY + r"\s*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)(?:\s+(?:\d{4}|\([A-Z]+\)))?$"  # also before a year, or (CEST)
MONTHS = "(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
MONTH = rf"(?i)^(?=.*\b\d{{4}}\b)(?=.*\b\d{{1,2}}\b).*\b{MONTHS}\b"
MONTH_OF_YEAR = rf"(?i)^(?:(\d{{4}})\W*({MONTHS})\.?|({MONTHS})\W*(\d{{4}}))$"  # 1991 Jul, July 1991
QUARTER = r"(?i)^(?:(\d{4})\W?q([1-4])|q([1-4])\W?(\d{4}))$"
LIKE_DATES = (r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\d{4}-\d{2}\b", MONTH, MONTH_OF_YEAR, QUARTER)
YEAR = r"\d{4}(?:\D|\d{4}|$)"
HALF_DAYS = ("%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p", "%Y-%m-%d %I %p")
YEARS = (1000, 3000)  # numbers that may be years, the last not among them
CENTURY = 69  # of two digits, the first that mean the 1900s, as in POSIX


class Dates(NamedTuple):
    """Dates that have been read: microseconds since 1970, int64 [M], the form in which they stood, for people, and whether with a zone."""

    ticks: Int64
    form: str
    zoned: bool


class Undecided(Exception):
    """Dates such as 03/04/2019 all of which may begin with the day or with the month; the message is one of them. firsts: with what they
    may begin, of "year", "day" and "month"."""

    def __init__(self, example: str, *firsts: str) -> None:
        super().__init__(example)
        self.firsts = firsts


class NoDates(Exception):
    """Text of which an entry is no date, or not as the others: its index and what was expected."""

    def __init__(self, index: int, expected: str) -> None:
        super().__init__(expected)
        self.index, self.expected = index, expected


def read_dates(entries: NDArray[np.object_], day_first: bool | None = None, year_first: bool = False) -> Dates:
    """Read distinct entries of a column of text, [M], as dates or datetimes.

    They are in UTC where they have a zone, else as they stand. day_first: of 03/04/2019, where no entry shows it. year_first: of 21-03-01.
    Raises NoDates, and Undecided where entries do not show whether the day or the month comes first, or the year of two digits may.
    """
    import pandas as pd  # noqa: PLC0415 (heavy, and tables of numbers do without)

    text = pd.Series(entries, dtype=object).astype(str)
    zoned = text.str.contains(ZONE, regex=True)
    if zoned.any() and not zoned.all():
        odd = int(np.argmin(zoned)) if zoned.iloc[0] else int(np.argmax(zoned))
        raise NoDates(odd, "a time with a zone" if zoned.iloc[0] else "a time without a zone")
    local = text.str.extract(LOCAL)
    if local[0].notna().all():
        if year_first:
            local = local.rename(columns={0: 3, 3: 0})
            return Dates(_year_month_day(local[3], local[2], local[0], local[4]), "dates with the year first", bool(zoned.all()))
        if day_first is None:
            _require_years_last(local)
        return Dates(*_read_local(local, day_first), bool(zoned.all()))
    if (quarters := text.str.extract(QUARTER)).notna().any(axis=1).all():
        years, numbers = quarters[0].fillna(quarters[3]), quarters[1].fillna(quarters[2]).astype(int)
        return Dates(_ticks(_iso(years + "-" + (3 * numbers - 2).astype(str).str.zfill(2))), "quarters of years", False)
    if (months := text.str.extract(MONTH_OF_YEAR)).notna().any(axis=1).all():
        text = "1 " + months[1].fillna(months[2]) + " " + months[0].fillna(months[3])
    if text.str.contains(MONTH, regex=True).all():
        return Dates(_ticks(_with_names(text)), "dates with names of months", bool(zoned.all()))
    return Dates(_ticks(_iso(text)), "ISO dates", bool(zoned.all()))


def _require_years_last(parts: pd.DataFrame) -> None:
    """Raise Undecided for dates such as 21-03-01 and 21-03-28, where what would be the years varies as days do, and the day does not."""
    first, second, last = (parts[place].astype(int) for place in (0, 2, 3))
    two_digits = (parts[0].str.len() == 2).all() and (parts[3].str.len() == 2).all()
    if two_digits and (second <= 12).all() and first.nunique() == 1 < last.nunique() and last.between(1, 31).all():
        others = {"day": first[0] <= 31, "month": first[0] <= 12}
        raise Undecided("".join(parts.iloc[0, [0, 1, 2, 1, 3]]), "year", *(part for part, possible in others.items() if possible))


def _read_local(parts: pd.DataFrame, day_first: bool | None) -> tuple[Int64, str]:
    first, second = parts[0].astype(int), parts[2].astype(int)
    a, mark, b, year = (str(part) for part in parts.iloc[0, :4])
    shown = f"{a}{mark}{b}{mark}{year}"
    begins_with_day, begins_with_month = bool((second <= 12).all()), bool((first <= 12).all())
    if day_first is None and begins_with_day and begins_with_month:
        if not (parts[1] == ".").all():
            raise Undecided(shown, "day", "month")
        day_first = True  # with points nobody writes the month first
    elif day_first is None:  # as the first entry that shows it
        day_first = begins_with_day or (not begins_with_month and bool(np.argmax(first > 12) < np.argmax(second > 12)))
    if not (begins_with_day if day_first else begins_with_month):
        wrong = second > 12 if day_first else first > 12
        raise NoDates(int(np.argmax(wrong)), f"a date with the {'day' if day_first else 'month'} first, as others have it")
    day, month = (parts[0], parts[2]) if day_first else (parts[2], parts[0])
    return _year_month_day(parts[3], month, day, parts[4]), f"dates with the {'day' if day_first else 'month'} first"


def _year_month_day(year: pd.Series[str], month: pd.Series[str], day: pd.Series[str], clock: pd.Series[str]) -> Int64:
    """Return the ticks of dates by their parts, [M] each; years have four digits, or two; clock: the time of day, missing where none is."""
    years = year.astype(int)
    years = years.where(year.str.len() == 4, years + np.where(years < CENTURY, 2000, 1900))
    text = years.astype(str) + "-" + month.str.zfill(2) + "-" + day.str.zfill(2)
    clock = clock.fillna("")
    return _ticks(_iso(text.where(clock == "", text + " " + clock)))


def _iso(text: pd.Series[str]) -> pd.Series[pd.Timestamp]:
    """Read ISO dates, with hours of 24 or of 12; NaT where an entry is none."""
    import pandas as pd  # noqa: PLC0415

    text = text.str.replace(r"\s*(?:UTC|GMT)$", "Z", regex=True).str.replace(r"\b(\d):", r"0\1:", regex=True)
    if text.iloc[:1].str.contains(r"[AaPp]\.?[Mm]\.?$", regex=True).any():
        text = text.str.replace(r"\s*([AaPp])\.?[Mm]\.?$", r" \1M", regex=True).str.replace("T", " ")
        tried = [pd.to_datetime(text, format=form, errors="coerce") for form in HALF_DAYS]
        return max(tried, key=lambda dates: int(dates.notna().sum()))
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    return dates.where(text.str.match(YEAR))  # pandas also takes -1 for a date


def _with_names(text: pd.Series[str]) -> pd.Series[pd.Timestamp]:
    """Read dates such as `Tue Apr 27 10:00:00 2004` or `27 Apr 2004`, in the form of the first where that is a usual one; NaT where an
    entry is none."""
    import pandas as pd  # noqa: PLC0415

    telling = text[~text.str.contains(r"(?i)\bmay\b", regex=True)]  # which is both long and short
    form = pd.tseries.api.guess_datetime_format((telling if len(telling) else text).iloc[0]) or "mixed"
    return pd.to_datetime(text, format=form, errors="coerce", utc=True)


def _ticks(dates: pd.Series[pd.Timestamp]) -> Int64:
    if dates.isna().any():
        raise NoDates(int(np.argmax(dates.isna())), "a date, as others are")
    plain = dates.dt.tz_localize(None) if dates.dt.tz is not None else dates
    return plain.to_numpy("datetime64[us]").astype(np.int64)


def dates_among(names: list[str]) -> list[int]:
    """Return the indices of the names, of a table's columns say, that are dates; [] where some that look like dates are none."""
    dated = [index for index, name in enumerate(names) if any(re.match(form, name) for form in LIKE_DATES)]
    if not dated:
        return []
    try:
        read_dates(np.array([names[index] for index in dated], object))
    except Undecided:
        pass
    except NoDates:
        return []
    return dated
