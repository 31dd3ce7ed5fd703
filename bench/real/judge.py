"""Recomputes the errors of a forecast of a file's test windows, and those of two baselines, with numpy alone.

    python judge.py FILE.csv --horizon H --season M [--series COLUMN] [--date COLUMN] [--predictions P.csv] [--json]

P.csv is what `landfall evaluate RUN --predictions P.csv` writes. Nothing of Landfall's is used: the file is read with
Python's csv module, divided, scaled and scored here. Of each series with n rows the first floor(0.7 n) train and the last
floor(0.2 n) test; every window whose whole horizon lies in the test rows is scored; values are scaled by mean and
population standard deviation of the training rows of their series and column; MSE and MAE are means over all windows,
steps, columns and series. Exit code 1 with one line where the predictions do not fit the file.
"""

import argparse
import csv
import json
import sys

import numpy as np


class Misfit(Exception):
    """What does not fit, in words."""


def number(cell):
    """A cell as a float, NaN where it is missing; None where it is text."""
    cell = cell.strip()
    if cell.lower() in {"", "na", "nan", "null", "-", "none"}:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return None


def read(path, series_column, date_column):
    """Series by name, each [columns, rows] with linearly filled holes, and the names of the columns."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        separator = max(",;\t", key=first.count)
        rows = list(csv.reader(file, delimiter=separator))
    header, rows = [name.strip() for name in rows[0]], [row for row in rows[1:] if any(c.strip() for c in row)]
    date = header.index(date_column) if date_column is not None else 0
    used = []
    for field, name in enumerate(header):
        cells = [number(row[field]) for row in rows]
        known = [c for c in cells if c is not None and not np.isnan(c)]
        if field == date or name == series_column or None in cells or len(set(known)) < 2:
            continue
        used.append(field)
    groups = {}
    for row in rows:
        name = row[header.index(series_column)].strip() if series_column else ""
        groups.setdefault(name, []).append([number(row[field]) for field in used])
    series = {}
    for name, values in groups.items():
        values = np.array(values, dtype=float).T
        for column in values:
            hole = np.isnan(column)
            if hole.any():
                index = np.arange(len(column))
                column[hole] = np.interp(index[hole], index[~hole], column[~hole])
        series[name] = values
    return series, [header[field] for field in used]


class Part:
    """One series, divided and scaled."""

    def __init__(self, values, horizon):
        self.values, self.horizon = values, horizon
        rows = values.shape[1]
        train, test = int(rows * 0.7), int(rows * 0.2)
        self.first = rows - test
        self.windows = test - horizon + 1
        if self.windows < 1:
            raise Misfit(f"{test} test rows hold no window of horizon {horizon}")
        self.mean = values[:, :train].mean(1, keepdims=True)
        self.std = values[:, :train].std(1, keepdims=True)
        self.std[self.std == 0] = 1.0

    def target(self, window):
        return slice(self.first + window, self.first + window + self.horizon)

    def naive(self, window, period):
        last = self.values[:, self.first + window - period : self.first + window]
        return last[:, np.arange(self.horizon) % period]

    def error(self, window, forecast):
        return (forecast - self.values[:, self.target(window)]) / self.std


def score(parts, forecast):
    """MSE, MAE over all windows; `forecast(name, window)` is [columns, horizon]."""
    errors = [p.error(w, forecast(name, w)).ravel() for name, p in parts.items() for w in range(p.windows)]
    errors = np.concatenate(errors)
    return float((errors**2).mean()), float(np.abs(errors).mean())


def predictions(path, parts, columns, horizon):
    """Forecasts by series and window, checked against the file."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise Misfit("the predictions are empty")
    absent = [c for c in columns if c not in rows[0] or f"{c}_actual" not in rows[0]]
    if absent:
        raise Misfit(f"the predictions have no column {absent[0]!r}")
    several, found, position = "series" in rows[0], {}, 0
    for name, part in parts.items():
        for window in range(part.windows):
            out = np.empty((len(columns), horizon))
            for step in range(horizon):
                if position == len(rows):
                    raise Misfit(f"window {window} of series {name!r} is missing")
                row = rows[position]
                position += 1
                at = (row["series"] if several else name, int(row["window"]), int(row["step"]))
                if at != (name, window, step + 1):
                    raise Misfit(f"row {position} is {at}, not {(name, window, step + 1)}")
                for c, column in enumerate(columns):
                    actual, truth = float(row[f"{column}_actual"]), part.values[c, part.first + window + step]
                    if not np.isclose(actual, truth, rtol=1e-6, atol=1e-9 * float(part.std[c, 0])):
                        raise Misfit(f"row {position}: {column} is {truth} in the file and {actual} in the predictions")
                    out[c, step] = float(row[column])
            if not np.isfinite(out).all():
                raise Misfit(f"window {window} of series {name!r} is not finite")
            found[name, window] = out
    if position != len(rows):
        raise Misfit(f"{len(rows) - position} rows too many")
    return found


def judge(path, horizon, season, series=None, date=None, file=None):
    """The errors of baselines and, with a file of predictions, of the forecast."""
    values, columns = read(path, series, date)
    parts = {name: Part(v, horizon) for name, v in values.items()}
    result = {"windows": sum(p.windows for p in parts.values()), "series": len(parts), "columns": len(columns)}
    for name, period in [("last_value", 1), ("seasonal_naive", season)]:
        mse, mae = score(parts, lambda s, w, period=period: parts[s].naive(w, period))
        result[name] = {"mse": mse, "mae": mae}
    if file is not None:
        found = predictions(file, parts, columns, horizon)
        mse, mae = score(parts, lambda s, w: found[s, w])
        better = min(result["last_value"]["mse"], result["seasonal_naive"]["mse"])
        result["forecast"] = {"mse": mse, "mae": mae, "ratio": mse / better}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--horizon", type=int, required=True)
    parser.add_argument("--season", type=int, required=True)
    parser.add_argument("--series")
    parser.add_argument("--date")
    parser.add_argument("--predictions")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        result = judge(args.file, args.horizon, args.season, args.series, args.date, args.predictions)
    except (Misfit, OSError, ValueError) as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"{result['windows']} test windows of {result['series']} series, {result['columns']} columns")
    for name in ["last_value", "seasonal_naive", "forecast"]:
        if name in result:
            print(f"{name:15} MSE {result[name]['mse']:.4g}  MAE {result[name]['mae']:.4g}")
    if "forecast" in result:
        print(f"{result['forecast']['ratio']:.3f} of the better baseline")
    return 0


if __name__ == "__main__":
    sys.exit(main())
