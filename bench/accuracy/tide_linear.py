"""TiDE's linear map of the window alone, which is all of it that learns by its reference code, trained by several recipes.

    python tide_linear.py --data ETTh1.csv --batch 32 --rate 5.5e-3 --epochs 20 --schedule cosine --seed 1
    python tide_linear.py --data ETTh1.csv --batch 1 --rate 9.848949e-4 --steps 259200 --twice --seed 1    # the reference code's

With numpy, in f32. Prints the errors after each epoch, and those of the weights with the best validation error.
"""

from __future__ import annotations

import argparse
import math
import pathlib

import numpy as np

from recipes import COLUMNS, HELD_OUT, TRAIN, scaled

CONTEXT = 720


class Map:
    """RevIN with a factor and an addend for each column, a linear map, RevIN's inverse; and Adam."""

    def __init__(self, horizon: int, rng: np.random.Generator):
        bound = math.sqrt(6 / (CONTEXT + horizon))
        self.horizon = horizon
        # Weight, bias, factors, addends, and the one value that the temporal decoder's layer norm leaves.
        self.values = [
            rng.uniform(-bound, bound, (horizon, CONTEXT)),
            np.zeros(horizon),
            np.ones(COLUMNS),
            np.zeros(COLUMNS),
            np.zeros(1),
        ]
        self.values = [value.astype(np.float32) for value in self.values]
        self.moments = [(np.zeros_like(value), np.zeros_like(value)) for value in self.values]
        self.done = 0

    def forward(self, x):
        """The forecast of windows `[batch, columns, context]`, and what the gradient needs of it."""
        weight, bias, factor, addend, norm = self.values
        mean = x.mean(2, keepdims=True)
        std = np.sqrt(x.var(2, keepdims=True) + np.float32(1e-5))
        unit = (x - mean) / std
        seen = factor[:, None] * unit + addend[:, None]
        made = (seen.reshape(-1, CONTEXT) @ weight.T).reshape(*x.shape[:2], self.horizon) + bias + norm
        undone = (made - addend[:, None]) / factor[:, None]
        return undone * std + mean, (std, unit, seen, undone)

    def step(self, x, y, rate: float):
        """One update by the mean squared error."""
        forecast, (std, unit, seen, undone) = self.forward(x)
        weight, _, factor, _, _ = self.values
        at = (2 / y.size) * (forecast - y) * std / factor[:, None]
        flat = at.reshape(-1, self.horizon)
        back = (flat @ weight).reshape(x.shape)
        gradients = [
            flat.T @ seen.reshape(-1, CONTEXT),
            flat.sum(0),
            (back * unit).sum((0, 2)) - (at * undone).sum((0, 2)),
            back.sum((0, 2)) - at.sum((0, 2)),
            flat.sum(keepdims=True).reshape(1),
        ]
        self.done += 1
        rate *= math.sqrt(1 - 0.999**self.done) / (1 - 0.9**self.done)
        for value, (first, second), gradient in zip(self.values, self.moments, gradients):
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            value -= np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))


def errors(model: Map, rows, begin: int, end: int) -> tuple[float, float]:
    """Mean squared and mean absolute error over all windows whose horizon lies in these rows."""
    squares = absolutes = count = 0.0
    for first in range(begin, end - model.horizon + 1, 64):
        starts = range(first, min(first + 64, end - model.horizon + 1))
        x = np.stack([rows[:, at - CONTEXT : at] for at in starts])
        wrong = model.forward(x)[0] - np.stack([rows[:, at : at + model.horizon] for at in starts])
        squares += float((wrong.astype(np.float64) ** 2).sum())
        absolutes += float(np.abs(wrong).sum(dtype=np.float64))
        count += wrong.size
    return squares / count, absolutes / count


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ETTh1.csv or ETTh2.csv")
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, help="steps until the rate is 0, instead of those of the epochs")
    parser.add_argument("--schedule", choices=("cosine", "constant"), default="cosine")
    parser.add_argument("--twice", action="store_true", help="each window twice in an epoch")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rows = scaled(args.data).to_numpy(np.float32).T.copy()
    rng = np.random.default_rng(args.seed)
    model = Map(args.horizon, rng)
    starts = np.arange(CONTEXT, TRAIN - args.horizon + 1)
    per_epoch = (len(starts) << args.twice) // args.batch
    total = args.steps or per_epoch * args.epochs
    best = (math.inf, None)
    for epoch in range(args.epochs):
        order = rng.permutation(starts)
        order = np.repeat(order, 2) if args.twice else order
        for batch in order[: per_epoch * args.batch].reshape(per_epoch, args.batch):
            fall = 0.5 + 0.5 * math.cos(math.pi * min(model.done / total, 1)) if args.schedule == "cosine" else 1
            x = np.stack([rows[:, at - CONTEXT : at] for at in batch])
            model.step(x, np.stack([rows[:, at : at + args.horizon] for at in batch]), args.rate * fall)
        validation, _ = errors(model, rows, TRAIN, TRAIN + HELD_OUT)
        test = errors(model, rows, TRAIN + HELD_OUT, TRAIN + 2 * HELD_OUT)
        best = min(best, (validation, test))
        print(f"epoch {epoch + 1}, {model.done} steps: validation {validation:.4f}, test {test[0]:.4f}, {test[1]:.4f}", flush=True)
        if args.steps and model.done >= args.steps:
            break
    print(f"best validation {best[0]:.4f}: test {best[1][0]:.4f}, {best[1][1]:.4f}")


if __name__ == "__main__":
    main()
