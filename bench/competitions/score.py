"""The measures of the competitions: sMAPE, MAPE, MASE, OWA, coverage and the scaled interval score (MSIS)."""

import numpy as np


def seasonal(train, season):
    """Whether the autocorrelation at the season passes the 90 % test of the M competitions."""
    if season == 1 or len(train) < 3 * season:
        return False
    x = train - train.mean()
    total = (x * x).sum()
    if total == 0:
        return False
    r = np.array([(x[k:] * x[:-k]).sum() / total for k in range(1, season + 1)])
    return abs(r[-1]) > 1.645 * np.sqrt((1 + 2 * (r[:-1] ** 2).sum()) / len(train))


def indices(train, season):
    """Multiplicative seasonal indices by classical decomposition, of mean 1."""
    half = season // 2
    weights = np.ones(season) if season % 2 else np.r_[0.5, np.ones(season - 1), 0.5]
    trend = np.convolve(train, weights / season, "valid")
    ratio = train[half : half + len(trend)] / trend
    place = (np.arange(len(trend)) + half) % season
    found = np.array([ratio[place == p].mean() for p in range(season)])
    return found / found.mean()


def naive2(train, horizon, season):
    """The last seasonally adjusted value, with its season put back: the reference of OWA."""
    if not seasonal(train, season) or (train <= 0).any():
        return np.full(horizon, train[-1])
    index = indices(train, season)
    n = len(train)
    return train[-1] / index[(n - 1) % season] * index[(n + np.arange(horizon)) % season]


def smape(test, forecast):
    """200·|y − f| / (|y| + |f|), 0 where both are 0, of each forecast."""
    size = np.abs(test) + np.abs(forecast)
    return np.where(size > 0, 200 * np.abs(test - forecast) / np.where(size > 0, size, 1), 0.0)


def scale(train, season):
    """The mean absolute seasonal difference; of a constant series NaN."""
    found = np.abs(train[season:] - train[:-season]).mean() if len(train) > season else np.nan
    return found if found > 0 else np.nan


def score(of, forecasts, intervals=None):
    """The measures of a set; `forecasts` has the values by name of a series, `intervals` by level and name (low, high)."""
    errors = {"smape": [], "mape": [], "mase": [], "smape2": [], "mase2": []}
    inside = {level: [] for level in intervals or {}}
    msis = {level: [] for level in intervals or {}}
    for s in of.series:
        f, n2, unit = forecasts[s.name], naive2(s.train, of.horizon, of.season), scale(s.train, of.season)
        errors["smape"].append(smape(s.test, f).mean())
        errors["smape2"].append(smape(s.test, n2).mean())
        errors["mape"].append((100 * np.abs(s.test - f) / np.abs(np.where(s.test == 0, np.nan, s.test))).mean())
        errors["mase"].append(np.abs(s.test - f).mean() / unit)
        errors["mase2"].append(np.abs(s.test - n2).mean() / unit)
        for level in inside:
            low, high = intervals[level][s.name]
            alpha = 1 - level / 100
            inside[level].append(((s.test >= low) & (s.test <= high)).mean())
            beyond = np.maximum(low - s.test, 0) + np.maximum(s.test - high, 0)
            msis[level].append((high - low + 2 / alpha * beyond).mean() / unit)
    mean = {name: float(np.nanmean(values)) for name, values in errors.items()}
    owa = (mean["smape"] / mean["smape2"] + mean["mase"] / mean["mase2"]) / 2
    found = {"smape": mean["smape"], "mape": mean["mape"], "mase": mean["mase"], "owa": owa}
    for level in inside:
        found[f"cover{level}"], found[f"msis{level}"] = 100 * float(np.mean(inside[level])), float(np.nanmean(msis[level]))
    return found
