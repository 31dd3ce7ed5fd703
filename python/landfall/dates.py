"""Dates of series: how they are written, the step between them, and dates that a person gives."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from .errors import InvalidValueError

if TYPE_CHECKING:
    from .tables import Layout

DAY = 86_400_000_000_000
#: Nanoseconds that a format of dates can tell apart, coarsest first; each reads those before it.
FORMATS = (
    (DAY, "%Y-%m-%d"),
    (1_000_000_000, "%Y-%m-%d %H:%M:%S"),
    (1_000_000, "%Y-%m-%d %H:%M:%S%.3f"),
    (1_000, "%Y-%m-%d %H:%M:%S%.6f"),
    (1, "%Y-%m-%d %H:%M:%S%.9f"),
)
#: Units of steps, and what a step of one is called.
_UNITS = (
    (7 * DAY, "weeks", "weekly"),
    (DAY, "days", "daily"),
    (3_600_000_000_000, "hours", "hourly"),
    (60_000_000_000, "minutes", "every minute"),
    (1_000_000_000, "seconds", "every second"),
    (1, "ns", "every ns"),
)
_MONTHS = {1: "monthly", 3: "quarterly", 12: "yearly"}
#: A date as text: a year, month or day, with a time of day or without, and its offset from UTC.
_TEXT = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d{1,9})?)?)?)?)?)?) ?(Z|[+-]\d\d(?::?\d\d)?)?"
)


def shown(date: Any, unit: str) -> str:
    """A date, for a person."""
    if unit == "integer":
        return str(int(date))
    return str(np.int64(date).view("datetime64[ns]").astype("datetime64[s]")).replace("T", " ")


def format_of(dates: np.ndarray, zone: str | None, clock: bool) -> str:
    """The shortest format that all dates can be written in."""
    size = next(size for size, _ in FORMATS if not np.any(dates % size))
    # Beside an offset a time of day is always written.
    size = min(size, 1_000_000_000) if zone is not None and not clock else size
    pattern = next(pattern for known, pattern in FORMATS if known == size)
    return pattern + "%:z" if zone is not None and not clock else pattern


def same_time(clock: np.ndarray) -> bool:
    """Whether a clock shows the same time of day at all these dates."""
    return len(clock) > 1 and not np.any(np.diff(clock) % DAY)


def places(dates: np.ndarray) -> tuple[np.ndarray, str] | None:
    """How many steps each date of a series is behind the first one, and the name of the step; `None` of dates that are not
    evenly spaced, or of which more than a third are skipped. The rules are those of the program: days of months, business
    days, or a length of time, of which the most frequent is the step."""
    if len(dates) < 2:
        return None
    on = dates.view("datetime64[ns]").astype("datetime64[D]")
    weekday = (on.astype(np.int64) + 3) % 7
    business = (on.astype(np.int64) + 3) // 7 * 5 + np.minimum(weekday, 4)
    daily = same_time(dates)
    if daily and _days_of_months(on):
        ruler, unit = on.astype("datetime64[M]").astype(np.int64), "months"
    elif daily and len(on) > 5 and weekday.max() < 5 and 2 * np.sum(np.diff(business) == 1) >= len(on):
        ruler, unit = business, "business days"
    else:
        ruler, unit = dates, "ns"
    steps, counts = np.unique(np.diff(ruler), return_counts=True)
    step = int(steps[np.argmax(counts)])
    if step <= 0 or np.any(steps % step):
        return None
    found = (ruler - ruler[0]) // step
    skipped = int(found[-1]) + 1 - len(found)
    return (found, _name(step, unit)) if skipped <= len(found) // 2 else None


def _days_of_months(on: np.ndarray) -> bool:
    """Whether dates are one day of their months, the last one, or the first or last business day."""
    months = on.astype("datetime64[M]")
    first, last = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
    day = first + (on - first).max()
    anchors = (
        np.minimum(day, last),
        last,
        np.busday_offset(last, 0, "backward"),
        np.busday_offset(first, 0, "forward"),
    )
    return any(np.array_equal(on, anchor) for anchor in anchors)


def _name(step: int, unit: str) -> str:
    if unit == "months":
        return _MONTHS.get(step, f"every {step} months")
    if unit == "business days":
        return unit if step == 1 else f"every {step} business days"
    size, plural, one = next(known for known in _UNITS if step % known[0] == 0)
    return one if step == size else f"every {step // size} {plural}"


def zone_of(name: str) -> tzinfo:
    """A time zone by its name; pandas names fixed offsets `UTC+02:00`."""
    fixed = re.fullmatch(r"UTC([+-]\d\d:\d\d)", name)
    return _offset(fixed[1]) if fixed else ZoneInfo(name)


def utc(clock: np.ndarray, zone: str) -> np.ndarray:
    """Dates in UTC at which the clock of a zone shows these. Of a time that it shows twice the first one; a time that it
    skips is later by what the clock is put forward."""
    known, rest = zone_of(zone), clock % 1_000
    moments = (clock - rest).view("datetime64[ns]").astype("datetime64[us]").tolist()
    there = [moment.replace(tzinfo=known).astimezone(timezone.utc).replace(tzinfo=None) for moment in moments]
    return np.array(there, dtype="datetime64[us]").astype("datetime64[ns]").view(np.int64) + rest


def instant(at: Any, layout: Layout) -> int:
    """A date that a person gives, as a layout's dates are."""
    name = layout.date_column
    if layout.step is not None:
        if isinstance(at, bool) or not isinstance(at, (int, np.integer)):
            raise InvalidValueError(f"at {at!r}: `{name}` holds integers; give one of them")
        return int(at)
    stamp, own = _read(at)
    if own is not None and layout.zone is None:
        raise InvalidValueError(f"at {at!r}: `{name}` has no time zone; give a date without one")
    if layout.zone is None or (own is None and layout.clock):
        return stamp
    rest = stamp % 1_000
    moment = np.int64(stamp - rest).view("datetime64[ns]").astype("datetime64[us]").item()
    moment = moment.replace(tzinfo=own or zone_of(layout.zone))
    moment = moment.astimezone(zone_of(layout.zone) if layout.clock else timezone.utc)
    return int(np.datetime64(moment.replace(tzinfo=None), "ns").astype(np.int64)) + rest


def _read(at: Any) -> tuple[int, tzinfo | None]:
    """The nanoseconds since 1970 that a date shows, and its time zone."""
    stamp, own = None, getattr(at, "tzinfo", None)
    try:
        if isinstance(at, str):
            found = _TEXT.fullmatch(at.strip())
            if found is not None:
                stamp = np.datetime64(found[1])
                own = _offset(found[2]) if found[2] else None
        elif isinstance(at, np.datetime64):
            stamp = at
        elif not isinstance(at, (int, np.integer)):
            shown = at.replace(tzinfo=None) if own is not None else at
            # A Timestamp of pandas counts nanoseconds, which datetime does not.
            stamp = shown.to_datetime64() if hasattr(shown, "to_datetime64") else np.datetime64(shown)
    except (ValueError, TypeError, AttributeError):
        stamp = None
    if stamp is None or np.isnat(stamp):
        raise InvalidValueError(f'at {at!r}: give a date, such as "2024-01-31", "2024-01-31 18:00" or a Timestamp')
    if not 1678 <= stamp.astype("datetime64[Y]").astype(int) + 1970 <= 2261:
        raise InvalidValueError(f"at {at!r}: a date is before 1678 or after 2261; dates between can be read")
    return int(stamp.astype("datetime64[ns]").astype(np.int64)), own


def _offset(text: str) -> timezone:
    if text == "Z":
        return timezone.utc
    sign, digits = -1 if text[0] == "-" else 1, text[1:].replace(":", "").ljust(4, "0")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
