"""TiDE and TSMixer for the PyTorch peer, with the sizes of rows.py: [batch, columns, context] to [batch, columns, horizon]."""

import torch
from torch import nn
from torch.nn import functional as F

COLUMN = 16  # values that stand for a column


class Reversible(nn.Module):
    """A model between RevIN and its inverse, with a factor and an addend for each column."""

    def __init__(self, c):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(c["channels"], 1))
        self.addend = nn.Parameter(torch.zeros(c["channels"], 1))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        y = self.standardised((x - mean) / std * self.factor + self.addend)
        return (y - self.addend) / (self.factor + 1e-10) * std + mean


class Residual(nn.Module):
    """A dense layer with ReLU and one without, beside a linear skip connection; then layer norm."""

    def __init__(self, inputs, hidden, outputs, dropout):
        super().__init__()
        self.hidden, self.out = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
        self.skip, self.norm, self.dropout = nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.Dropout(dropout)

    def forward(self, x):
        return self.norm(self.dropout(self.out(F.relu(self.hidden(x)))) + self.skip(x))


class TiDE(Reversible):
    """Without covariates: encoder and decoder are one residual block each."""

    def __init__(self, c):
        super().__init__(c)
        d, made = c["d_model"], c["d_decoder"] * c["horizon"]
        self.d_decoder = c["d_decoder"]
        self.columns = nn.Parameter(torch.empty(c["channels"], COLUMN).uniform_(-0.05, 0.05))
        self.encoder = Residual(c["context"] + COLUMN, d, d, c["dropout"])
        self.decoder = Residual(d, d, made, c["dropout"])
        self.temporal = Residual(c["d_decoder"], c["d_temporal"], 1, c["dropout"])
        self.skip = nn.Linear(c["context"], c["horizon"])

    def standardised(self, x):
        columns = self.columns.to(x.dtype).expand(x.shape[0], -1, -1)
        made = self.decoder(self.encoder(torch.cat((x, columns), -1)))
        rows = made.unflatten(-1, (self.d_decoder, -1)).transpose(-1, -2)
        return self.temporal(rows).squeeze(-1) + self.skip(x)


class Mixer(nn.Module):
    """Mixes rows, then columns, each after batch norm over both and beside a skip connection."""

    def __init__(self, c):
        super().__init__()
        columns, rows = c["channels"], c["context"]
        self.norm_rows, self.norm_columns = (nn.BatchNorm1d(columns * rows) for _ in range(2))
        self.rows = nn.Linear(rows, rows)
        self.expand, self.contract = nn.Linear(columns, c["d_ff"]), nn.Linear(c["d_ff"], columns)
        self.dropout = nn.Dropout(c["dropout"])

    def forward(self, x):
        x = x + self.dropout(F.relu(self.rows(self.norm_rows(x.flatten(1)).view_as(x))))
        by_row = self.norm_columns(x.flatten(1)).view_as(x).transpose(1, 2)
        mixed = self.contract(self.dropout(F.relu(self.expand(by_row))))
        return x + self.dropout(mixed).transpose(1, 2)


class TSMixer(Reversible):
    """The basic form: mixing layers on the lookback window, then a linear map to the horizon."""

    def __init__(self, c):
        super().__init__(c)
        self.layers = nn.Sequential(*(Mixer(c) for _ in range(c["layers"])))
        self.horizon = nn.Linear(c["context"], c["horizon"])

    def standardised(self, x):
        return self.horizon(self.layers(x))
