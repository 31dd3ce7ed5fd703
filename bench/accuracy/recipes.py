"""What all sides of the accuracy table share: the published recipes, the benchmark's rows, and a side's arguments."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import sys

TRAIN, HELD_OUT, COLUMNS = 8640, 2880, 7
MODELS = ("patchtst", "dlinear", "tide", "tsmixer")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Sizes and training of one model on one data set, as in Landfall's preset of that name."""

    preset: str
    context: int
    batch: int
    epochs: int
    rate: float
    patience: int | None
    schedule: str = "constant"
    betas: tuple[float, float] = (0.9, 0.999)
    dropout: float = 0.0
    layers: int = 0
    d_ff: int = 0

    def steps(self, horizon: int) -> int:
        """Steps of an epoch; the last partial batch is left out."""
        return (TRAIN - self.context - horizon + 1) // self.batch

    def factor(self, step: int, horizon: int) -> float:
        """What the learning rate is multiplied by in this step, from 0 on."""
        steps = self.steps(horizon)
        if self.schedule == "cosine":
            all_steps = self.epochs * steps
            warm = max(all_steps // 20, 1)
            if step < warm:
                return (step + 1) / warm
            return 0.5 + 0.5 * math.cos(math.pi * (step - warm) / max(all_steps - warm, 1))
        epoch = step // steps + 1
        if self.schedule == "halving":
            return 0.5 ** max(epoch - 2, 0)
        if self.schedule == "official":
            return 0.04 if epoch == 1 else 0.9 ** max(epoch - 4, 0)
        return 1.0


def recipe(model: str, data: str, epochs: int | None = None) -> Recipe:
    """The recipe for the data set of this name; fewer epochs if told."""
    second = {"ETTh1": False, "ETTh2": True}[data]
    end = "-etth2" if second else ""
    found = {
        "patchtst": Recipe(
            "patchtst-42", 336, 128, 100, 1e-4, None, "official", (0.95, 0.999), dropout=0.3, layers=3, d_ff=128
        ),
        "dlinear": Recipe(f"dlinear{end}", 336, 32, 10, 5e-2 if second else 5e-3, 3, "halving"),
        "tide": Recipe(
            f"tide{end}", 720, 32, 40 if second else 20, 9e-4 if second else 5.5e-3, None, "cosine",
            dropout=0.2 if second else 0.5, layers=2,
        ),
        "tsmixer": Recipe(
            f"tsmixer{end}", 512, 32, 100, 1e-4, 5, dropout=0.9, layers=2 if second else 6, d_ff=64 if second else 512
        ),
    }[model]
    return dataclasses.replace(found, epochs=min(epochs, found.epochs)) if epochs else found


def needs(*packages: str) -> None:
    """Ends the program with a sentence if a package is not installed."""
    import importlib.util

    for package in packages:
        if importlib.util.find_spec(package) is None:
            sys.exit(f"{package} is not installed for {sys.executable}: pip install {package}")


def scaled(path: pathlib.Path):
    """The benchmark's rows with their dates, standardised by the training rows."""
    import pandas as pd

    if not path.is_file():
        sys.exit(f"{path} does not exist: ETTh1.csv and ETTh2.csv are files of the repository zhouhaoyi/ETDataset")
    table = pd.read_csv(path, parse_dates=["date"]).iloc[: TRAIN + 2 * HELD_OUT].set_index("date")
    if table.shape != (TRAIN + 2 * HELD_OUT, COLUMNS):
        sys.exit(f"{path} has {table.shape[0]} rows of {table.shape[1]} columns, not 14400 of 7")
    train = table.iloc[:TRAIN]
    return (table - train.mean()) / train.std(ddof=0)


def arguments(description: str, models: tuple[str, ...] = MODELS) -> argparse.Namespace:
    """The arguments of a side: one run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=models, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ETTh1.csv or ETTh2.csv")
    parser.add_argument("--horizon", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--epochs", type=int, help="at most so many, instead of the recipe's")
    return parser.parse_args()


def report(mse: float, mae: float, epochs: int, seconds: float) -> None:
    """Prints what run.py reads: the last line of a side."""
    print(json.dumps({"mse": mse, "mae": mae, "epochs": epochs, "seconds_train": round(seconds, 2)}), flush=True)
