"""One run of the official PatchTST or DLinear in plain PyTorch by the recipe of a Landfall preset, and its test errors.

    python torch_side.py --model dlinear --data ETTh1.csv --horizon 96 --seed 2021

The windows are views of one tensor, so no loader's processes are timed. A seed gives the official program's initial
values; an epoch's order is one `torch.randperm`.
"""

from __future__ import annotations

import time

from recipes import HELD_OUT, TRAIN, arguments, needs, recipe, report, scaled

needs("torch", "pandas")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class DLinear(nn.Module):
    """A linear map of the moving average and one of the remainder, for all columns."""

    def __init__(self, c, horizon):
        super().__init__()
        self.seasonal, self.trend = nn.Linear(c.context, horizon), nn.Linear(c.context, horizon)

    def forward(self, x):
        trend = F.avg_pool1d(F.pad(x, (12, 12), mode="replicate"), 25, 1)
        return self.seasonal(x - trend) + self.trend(trend)


class Layer(nn.Module):
    """A post-norm layer whose attention adds the scores of the layer before it."""

    def __init__(self, c, d=16, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(d, c.d_ff), nn.GELU(), nn.Dropout(c.dropout), nn.Linear(c.d_ff, d))
        self.norms = nn.ModuleList(nn.BatchNorm1d(d) for _ in range(2))
        self.drops = nn.ModuleList(nn.Dropout(c.dropout) for _ in range(3))

    def forward(self, x, before):
        q, k, v = (m(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores if before is None else scores + before
        attended = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.drops[1](self.drops[0](self.out(attended)))
        x = self.norms[0](x.transpose(1, 2)).transpose(1, 2)
        x = x + self.drops[2](self.feed(x))
        return self.norms[1](x.transpose(1, 2)).transpose(1, 2), scores


class PatchTST(nn.Module):
    """Patches of each column, normalised by window, through the layers and a linear head."""

    def __init__(self, c, horizon, patch=16, stride=8, d=16):
        super().__init__()
        self.patch, self.stride = patch, stride
        patches = (c.context - patch) // stride + 2
        self.position = nn.Parameter(torch.empty(patches, d).uniform_(-0.02, 0.02))
        self.embed, self.drop = nn.Linear(patch, d), nn.Dropout(c.dropout)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.head = nn.Linear(patches * d, horizon)

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        deviation = (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        z = F.pad((x - mean) / deviation, (0, self.stride), mode="replicate").flatten(0, 1)
        h, scores = self.drop(self.embed(z.unfold(-1, self.patch, self.stride)) + self.position), None
        for layer in self.layers:
            h, scores = layer(h, scores)
        # The official program flattens [d, patches], which only permutes the head's columns.
        y = self.head(h.flatten(1)).view(*x.shape[:2], -1)
        return y * deviation + mean


def windows(table, first: int, last: int, c, horizon: int, device: str):
    """The windows whose predicted rows lie between these two, as a view [windows, columns, rows]."""
    rows = torch.tensor(table.to_numpy(), dtype=torch.float32, device=device)[first - c.context : last]
    return rows.unfold(0, c.context + horizon, 1)


@torch.no_grad()
def errors(model, held, context: int, batch: int = 128) -> tuple[float, float]:
    """MSE and MAE over all windows."""
    model.eval()
    squares = absolutes = 0.0
    for part in held.split(batch):
        error = (model(part[..., :context]) - part[..., context:]).double()
        squares, absolutes = squares + float(error.square().sum()), absolutes + float(error.abs().sum())
    count = held.shape[0] * held.shape[1] * (held.shape[2] - context)
    return squares / count, absolutes / count


def main() -> None:
    """Trains, keeps the best weights, scores, prints."""
    args = arguments(__doc__.splitlines()[0], ("patchtst", "dlinear"))
    torch.set_num_threads(args.threads)
    c, horizon, table = recipe(args.model, args.data.stem, args.epochs), args.horizon, scaled(args.data)
    ends = TRAIN, TRAIN + HELD_OUT, TRAIN + 2 * HELD_OUT
    train = windows(table, c.context, ends[0], c, horizon, args.device)
    validation, test = (windows(table, *pair, c, horizon, args.device) for pair in zip(ends, ends[1:]))
    torch.manual_seed(args.seed)
    model = {"dlinear": DLinear, "patchtst": PatchTST}[args.model](c, horizon).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=c.rate, betas=c.betas)
    lowest, kept, since, begin = float("inf"), None, 0, time.perf_counter()
    for epoch in range(1, c.epochs + 1):
        optimizer.param_groups[0]["lr"] = c.rate * c.factor((epoch - 1) * c.steps(horizon), horizon)
        model.train()
        order = torch.randperm(len(train)).to(args.device)
        for step in range(c.steps(horizon)):
            batch = train[order[step * c.batch : (step + 1) * c.batch]]
            loss = F.mse_loss(model(batch[..., : c.context]), batch[..., c.context :])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error, _ = errors(model, validation, c.context)
        since += 1
        if error <= lowest:
            lowest, since = error, 0
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        if c.patience and since >= c.patience:
            break
    seconds = time.perf_counter() - begin
    model.load_state_dict(kept)
    report(*errors(model, test, c.context), epoch, seconds)


if __name__ == "__main__":
    main()
