"""Writes formats/*.csv and formats.csv: files in the forms that pandas writes and reads, and the facts about each.

    pip install pandas
    python make_formats.py

formats.csv has a row for each file: the columns that hold the date and the series, the number of series, of rows after
gaps are filled, and of value columns, the frequency in words, the seasonal period, the last date and the two dates after
it as the file would write them. Dates and the dates after them are pandas' own.
"""

import csv
import math
import random
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
OUT = HERE / "formats"
FACTS = []
random.seed(7)


def wave(n, period, level=50.0):
    """A wave of this period with noise, one decimal."""
    return [round(level + 10 * math.sin(2 * math.pi * i / period) + random.gauss(0, 1), 1) for i in range(n)]


def fact(name, *, period, frequency, last, after, dates="date", ids="", series=1, rows, values=1):
    FACTS.append([name, dates, ids, series, rows, values, frequency, period, last, *after])


def quarter(form):
    return lambda d: form.format(y=d.year, q=d.quarter)


def save(name, text, encoding="utf-8"):
    (OUT / f"{name}.csv").write_bytes(text.encode(encoding))


def plain(name, freq, n, form, period, frequency, start="2019-01-01", **more):
    """A column of dates and one of values; `form` is a strftime pattern or a function."""
    write = form if callable(form) else (lambda d: d.strftime(form))
    dates = list(pd.date_range(start, periods=n + 2, freq=freq))
    texts = [write(d) for d in dates]
    values = wave(n, more.pop("wave", period))
    separator = more.pop("sep", ",")
    column = more.pop("column", "date")
    header = more.pop("header", "")
    cell = more.pop("cell", str)
    encoding = more.pop("encoding", "utf-8")
    order = more.pop("order", 1)
    value = more.pop("value", "value")
    drop = more.pop("drop", ())
    rows = [[t, cell(v)] for i, (t, v) in enumerate(zip(texts, values)) if i not in drop][::order]
    frame = pd.DataFrame(rows, columns=[column, value])
    save(name, header + frame.to_csv(index=False, sep=separator, lineterminator=more.pop("end", "\n")), encoding)
    fact(name, period=period, frequency=frequency, last=texts[n - 1], after=texts[n:], dates=column, rows=n)
    assert not more, more


def apart(name, freq, n, columns, form, period, frequency, start="2019-01-01", names=None):
    """A date in several columns; `form` is how its parts are written as one."""
    dates = list(pd.date_range(start, periods=n + 2, freq=freq))
    frame = pd.DataFrame([[part(d) for part in columns.values()] for d in dates[:n]], columns=list(columns))
    frame["value"] = wave(n, period)
    save(name, frame.to_csv(index=False))
    write = form if callable(form) else (lambda d: d.strftime(form))
    texts = [write(d) for d in dates]
    fact(name, period=period, frequency=frequency, last=texts[n - 1], after=texts[n:], dates="|".join(columns), rows=n)


def main():
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*.csv"):
        old.unlink()
    plain("month", "MS", 40, "%Y-%m", 12, "monthly")
    plain("month_name_after", "MS", 40, "%Y %b", 12, "monthly", column="Month")
    plain("month_name_before", "MS", 40, "%b %Y", 12, "monthly")
    plain("month_full_name", "MS", 40, "%B %Y", 12, "monthly")
    plain("month_slash", "MS", 40, "%m/%Y", 12, "monthly")
    plain("month_end", "ME", 40, "%Y-%m-%d", 12, "monthly")
    plain("business_month_end", "BME", 40, "%d.%m.%Y", 12, "monthly")
    plain("business_month_start", "BMS", 40, "%Y-%m-%d", 12, "monthly")
    plain("quarter", "QS", 24, quarter("{y}Q{q}"), 4, "quarterly")
    plain("quarter_blank", "QS", 24, quarter("{y} Q{q}"), 4, "quarterly", start="1970-01-01")
    plain("quarter_first", "QS", 24, quarter("Q{q} {y}"), 4, "quarterly")
    plain("quarter_end", "QE", 24, "%Y-%m-%d", 4, "quarterly")
    plain("year", "YS", 90, "%Y", 11, "yearly", start="1900-01-01", column="Year")
    plain("year_end", "YE", 90, "%d/%m/%Y", 11, "yearly", start="1900-01-01")
    plain("week_sunday", "W-SUN", 120, "%m/%d/%Y", 52, "weekly (Sunday)")
    plain("week_iso", "W-MON", 120, "%G-W%V", 52, "weekly (Monday)")
    plain("business_days", "B", 60, "%d/%m/%Y", 5, "business days")
    plain("business_days_and_holidays", "B", 60, "%Y-%m-%d", 5, "business days", drop=(17, 18, 40))
    plain("day_month_name", "D", 40, "%b %d, %Y", 7, "daily")
    plain("day_before_name", "D", 40, "%d %b %Y", 7, "daily")
    plain("day_of_two_digit_year", "D", 40, "%d-%b-%y", 7, "daily", start="1994-12-20")
    plain("day_and_name", "D", 40, "%a, %d %b %Y", 7, "daily")
    plain("day_dashes", "D", 40, lambda d: f"{d:%b}-{d.day}-{d.year}", 7, "daily", start="1995-01-01")
    plain("day_no_zeros", "D", 40, lambda d: f"{d.month}/{d.day}/{d.year}", 7, "daily")
    plain("day_digits", "D", 40, "%Y%m%d", 7, "daily")
    plain("day_newest_first", "D", 40, "%Y-%m-%d", 7, "daily", order=-1)
    plain("hour_utc", "h", 72, "%Y-%m-%dT%H:%M:%SZ", 24, "hourly", column="timestamp")
    plain("half_hour_am_pm", "30min", 120, "%m/%d/%Y %I:%M %p", 48, "every 30 min", start="2020-02-12")
    plain("quarter_hour_comma", "15min", 200, "%d.%m.%Y %H:%M", 96, "every 15 min", sep=";", end="\r\n",
          cell=lambda v: str(v).replace(".", ","))
    plain("ten_minutes_tab", "10min", 300, "%Y/%m/%d %H:%M", 144, "every 10 min", sep="\t")
    plain("tenth_seconds", "100ms", 90, lambda d: f"{d:%Y-%m-%d %H:%M:%S}.{d.microsecond // 1000:03}", 10, "every 100 ms",
          wave=10)
    plain("unix_seconds", "h", 72, lambda d: str(d.value // 10**9), 24, "hourly", column="timestamp")
    plain("unix_milliseconds", "h", 72, lambda d: str(d.value // 10**6), 24, "hourly", column="time")
    plain("unix_microseconds", "D", 40, lambda d: str(d.value // 10**3), 7, "daily", column="ds")
    plain("pipes", "D", 40, "%Y-%m-%d", 7, "daily", sep="|")
    plain("blanks", "D", 40, "%Y-%m-%d", 7, "daily", sep=" ")
    plain("comments", "D", 40, "%Y-%m-%d", 7, "daily", header="# station 7\n# degrees\n\n")
    plain("thousands", "D", 40, "%Y-%m-%d", 7, "daily", cell=lambda v: f"{int(v * 1000):,}")
    plain("percent", "D", 40, "%Y-%m-%d", 7, "daily", cell=lambda v: f"{v} %")
    plain("dollars", "D", 40, "%Y-%m-%d", 7, "daily", cell=lambda v: f"${v * 100:,.2f}")
    plain("utf16", "D", 40, "%Y-%m-%d", 7, "daily", encoding="utf-16", value="température")
    plain("latin1", "D", 40, "%Y-%m-%d", 7, "daily", encoding="latin-1", value="température")

    apart("year_month", "MS", 40, {"year": lambda d: d.year, "month": lambda d: d.month}, "%Y-%m", 12, "monthly")
    apart("year_month_name", "MS", 40, {"Year": lambda d: d.year, "Month": lambda d: d.strftime("%b")}, "%Y %b", 12, "monthly")
    apart("year_quarter", "QS", 24, {"year": lambda d: float(d.year), "quarter": lambda d: float(d.quarter)},
          quarter("{y}Q{q}"), 4, "quarterly")
    day = {"year": lambda d: d.year, "month": lambda d: d.month, "day": lambda d: d.day}
    apart("year_month_day", "D", 40, day, "%Y-%m-%d", 7, "daily")
    apart("year_month_day_hour", "h", 72, day | {"hour": lambda d: d.hour}, "%Y-%m-%d %H:%M", 24, "hourly")
    apart("date_time", "h", 72, {"Date": lambda d: d.strftime("%d/%m/%Y"), "Time": lambda d: d.strftime("%H:%M:%S")},
          "%d/%m/%Y %H:%M:%S", 24, "hourly", start="2020-02-12")
    apart("date_hour", "h", 72, {"dteday": lambda d: d.strftime("%Y-%m-%d"), "hr": lambda d: d.hour},
          "%Y-%m-%d %H:%M", 24, "hourly")

    # Changes of the clock: with the offset from UTC, and without.
    local = pd.date_range("2020-10-23", periods=122, freq="h", tz="Europe/Berlin")
    for name, texts in [
        ("clock_offset", [d.isoformat() for d in local]),
        ("clock_autumn", [d.strftime("%Y-%m-%d %H:%M") for d in local]),
    ]:
        pd.DataFrame({"date": texts[:120], "value": wave(120, 24)}).to_csv(OUT / f"{name}.csv", index=False)
        fact(name, period=24, frequency="hourly", last=texts[119], after=texts[120:], rows=120)

    # Row numbers before the dates, text, a constant, truth and a name that is there twice.
    dates = pd.date_range("2020-01-01", periods=42, freq="D")
    texts = [d.strftime("%Y-%m-%d") for d in dates]
    frame = pd.DataFrame({"when": texts[:40], "city": "Rome", "on": [i % 3 == 0 for i in range(40)], "k": 3,
                          "value": wave(40, 7), "other": wave(40, 7)})
    frame = frame.rename(columns={"other": "value"})
    frame.to_csv(OUT / "row_numbers.csv")
    fact("row_numbers", period=7, frequency="daily", last=texts[39], after=texts[40:], dates="when", rows=40, values=3)

    # Long form, by one column and by two.
    rows = [[t, s, v] for s in ("north", "south", "west") for t, v in zip(texts[:40], wave(40, 7))]
    pd.DataFrame(rows, columns=["date", "site", "value"]).to_csv(OUT / "long.csv", index=False)
    fact("long", period=7, frequency="daily", last=texts[39], after=texts[40:], ids="site", series=3, rows=120)
    rows = [[s, i, t, v] for s in ("A", "B") for i in (1, 2) for t, v in zip(texts[:40], wave(40, 7))]
    rows.sort(key=lambda row: row[2])
    pd.DataFrame(rows, columns=["store", "item", "date", "sales"]).to_csv(OUT / "long_two.csv", index=False)
    fact("long_two", period=7, frequency="daily", last=texts[39], after=texts[40:], ids="store|item", series=4, rows=160)

    with open(HERE / "formats.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "dates", "ids", "series", "rows", "values", "frequency", "period", "last", "next", "after"])
        writer.writerows(FACTS)


main()
