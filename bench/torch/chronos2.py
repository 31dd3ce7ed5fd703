"""Forecasts of a Chronos-2 with random weights, by `landfall.chronos` and by its authors' model, on one device.

    python bench/torch/chronos2.py cuda > records.csv      (needs torch, chronos-forecasting and landfall-ml)

A small model first: how far the quantiles of both are from those of their model in float64, of the largest. Then one of Chronos-2's size,
alternating, medians of calls: 512 series in batches of 256, 64 rows ahead, from host memory and back to it.
"""

import sys
import tempfile
import time

import numpy as np
import torch
from chronos.chronos2 import Chronos2CoreConfig, Chronos2Model
from landfall.chronos import Chronos

LEVELS = [0.01, *(i / 20 for i in range(1, 20)), 0.99]
SERIES, BATCH, HORIZON, CALLS = 512, 256, 64, 5
#: Width, features of a head, feed-forward, layers, heads; context, patch, patches of a pass; factor of the weights.
SMALL = ((32, 8, 64, 2, 4), (128, 8, 4), 0.3)
LARGE = ((768, 64, 3072, 12, 12), (8192, 16, 64), 0.05)


def saved(folder, sizes, device):
    (width, features, hidden, layers, heads), (context, patch, patches), factor = sizes
    torch.manual_seed(1)
    own = {
        "context_length": context,
        "input_patch_size": patch,
        "input_patch_stride": patch,
        "output_patch_size": patch,
        "quantiles": LEVELS,
        "use_reg_token": True,
        "use_arcsinh": True,
        "max_output_patches": patches,
    }
    config = Chronos2CoreConfig(
        d_model=width,
        d_kv=features,
        d_ff=hidden,
        num_layers=layers,
        num_heads=heads,
        dropout_rate=0.0,
        initializer_factor=factor,
        chronos_config=own,
        architectures=["Chronos2Model"],
    )
    model = Chronos2Model(config).eval()
    model.save_pretrained(folder)
    return model.to(device)


def waves(series, rows):
    place, generator = np.arange(rows), np.random.default_rng(0)
    return 3 + np.sin(place * 0.7 + np.arange(series)[:, None]) + 0.3 * generator.standard_normal((series, rows))


@torch.no_grad()
def theirs(model, values, patches, groups=None):
    values = torch.tensor(values, dtype=torch.float32).to(model.device)
    return model(context=values, group_ids=groups, num_output_patches=patches).quantile_preds.float().cpu().numpy()


def compare(device):
    with tempfile.TemporaryDirectory() as folder:
        model, ours = saved(folder, SMALL, device), Chronos(folder, device=device)
        values = waves(40, 100)
        values[3, 20:29], values[5, :60] = np.nan, np.nan
        groups = torch.arange(8, device=device).repeat_interleave(5)
        own = np.stack([entry[0] for entry in ours.forecast(list(values), 32)])
        together = np.concatenate(ours.forecast(list(values.reshape(8, 5, 100)), 32))
        given = (("each", own, None), ("groups", together, groups))
        authors = [theirs(model, values, 4, of) for _, _, of in given]
        model = model.double()
        for (name, a, of), b in zip(given, authors):
            exact = theirs(model, values, 4, of)
            apart, their = (np.abs(each - exact).max() / np.abs(exact).max() for each in (a, b))
            print(f"float32,100,{name},distance from float64,{apart:.2e},{their:.2e}", flush=True)


def main(device):
    print("dtype,rows,what,of,value,beside")
    compare(device)
    with tempfile.TemporaryDirectory() as folder:
        model = saved(folder, LARGE, device)
        for dtype in ("bfloat16", "float32"):
            ours, model = Chronos(folder, device=device, dtype=dtype), model.to(getattr(torch, dtype))
            for rows in (512, 2048):
                values = waves(SERIES, rows)
                ways = {
                    "landfall": lambda ours=ours, values=values: ours.forecast(list(values), HORIZON),
                    "authors": lambda values=values: [
                        theirs(model, values[i : i + BATCH], HORIZON // 16) for i in range(0, SERIES, BATCH)
                    ],
                }
                seconds = {name: [] for name in ways}
                for call in range(2 + CALLS):
                    for name, way in ways.items():
                        start = time.perf_counter()
                        way()
                        if call > 1:
                            seconds[name].append(time.perf_counter() - start)
                rates = {name: SERIES / sorted(all_)[CALLS // 2] for name, all_ in seconds.items()}
                print(f"{dtype},{rows},series a second,landfall,{rates['landfall']:.0f},{rates['authors']:.0f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
