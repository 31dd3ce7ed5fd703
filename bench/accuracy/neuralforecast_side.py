"""One run with neuralforecast by the recipe of a Landfall preset, and its errors on all test windows.

    python neuralforecast_side.py --model dlinear --data ETTh1.csv --horizon 96 --seed 2021

The seven columns are seven series. docs/accuracy.md says what of a recipe this library cannot express.
"""

from __future__ import annotations

import logging
import time
import warnings

from recipes import COLUMNS, HELD_OUT, MODELS, arguments, needs, recipe, report, scaled

needs("neuralforecast", "torch", "pandas")

import torch  # noqa: E402
from neuralforecast import NeuralForecast  # noqa: E402
from neuralforecast.losses.pytorch import MSE  # noqa: E402
from neuralforecast.models import DLinear, PatchTST, TiDE, TSMixer  # noqa: E402
from pytorch_lightning import Callback  # noqa: E402


class BestWeights(Callback):
    """Keeps the weights with the lowest validation error, and puts them back at the end; counts the validations."""

    def __init__(self):
        self.lowest, self.weights, self.validations = float("inf"), None, 0

    def on_validation_end(self, trainer, pl_module):
        self.validations += 1
        error = float(trainer.callback_metrics["ptl/val_loss"])
        if error < self.lowest:
            self.lowest = error
            self.weights = {name: value.clone() for name, value in pl_module.state_dict().items()}

    def on_train_end(self, trainer, pl_module):
        if self.weights:
            pl_module.load_state_dict(self.weights)


def made(model: str, chosen, horizon: int, seed: int, device: str):
    """The model with the recipe's sizes."""
    steps = chosen.steps(horizon)
    together = model == "tsmixer"
    common = {
        "h": horizon,
        "input_size": chosen.context,
        "loss": MSE(),
        "max_steps": chosen.epochs * steps,
        "val_check_steps": steps,
        "early_stop_patience_steps": chosen.patience or -1,
        "learning_rate": chosen.rate,
        "optimizer": torch.optim.Adam,
        "optimizer_kwargs": {"betas": chosen.betas},
        "lr_scheduler": torch.optim.lr_scheduler.LambdaLR,
        "lr_scheduler_kwargs": {"lr_lambda": lambda step: chosen.factor(step, horizon)},
        "batch_size": COLUMNS,
        # A window of a univariate model is one of one column: a batch has as many numbers as Landfall's.
        "windows_batch_size": chosen.batch if together else chosen.batch * COLUMNS,
        "random_seed": seed,
        "num_sanity_val_steps": 0,
        "accelerator": device,
        "devices": 1,
        "callbacks": [BestWeights()],
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "logger": False,
    }
    if model == "dlinear":
        return DLinear(moving_avg_window=25, **common)
    if model == "tide":
        sizes = {"hidden_size": 512, "decoder_output_dim": 32, "temporal_decoder_dim": 16, "layernorm": True}
        # The reference code's two layers are the two dense ones of a single residual block.
        layers = {"num_encoder_layers": chosen.layers - 1, "num_decoder_layers": chosen.layers - 1}
        return TiDE(dropout=chosen.dropout, scaler_type="revin", **sizes, **layers, **common)
    if model == "tsmixer":
        sizes = {"n_series": COLUMNS, "n_block": chosen.layers, "ff_dim": chosen.d_ff}
        return TSMixer(dropout=chosen.dropout, revin=True, **sizes, **common)
    return PatchTST(
        encoder_layers=chosen.layers,
        n_heads=4,
        hidden_size=16,
        linear_hidden_size=chosen.d_ff,
        dropout=chosen.dropout,
        fc_dropout=chosen.dropout,
        patch_len=16,
        stride=8,
        revin=True,
        revin_subtract_last=False,
        batch_normalization=True,
        res_attention=True,
        **common,
    )


def main() -> None:
    """Trains, scores, prints."""
    args = arguments(__doc__.splitlines()[0], MODELS)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(args.threads)
    table = scaled(args.data).rename_axis("ds").reset_index()
    long = table.melt(id_vars="ds", var_name="unique_id", value_name="y")
    before_test = long[long.ds < table.ds.iloc[-HELD_OUT]]
    model = made(args.model, recipe(args.model, args.data.stem, args.epochs), args.horizon, args.seed, args.device)
    forecaster = NeuralForecast(models=[model], freq="h")
    begin = time.perf_counter()
    forecaster.fit(before_test, val_size=HELD_OUT)
    seconds = time.perf_counter() - begin
    # The library trains a copy of the model, and so of the callback.
    fitted = forecaster.models[0]
    best = next(c for c in fitted.trainer_kwargs["callbacks"] if isinstance(c, BestWeights))
    crossed = forecaster.cross_validation(
        long, n_windows=None, test_size=HELD_OUT, step_size=1, use_fitted=True, refit=False
    )
    windows = HELD_OUT - args.horizon + 1
    if len(crossed) != windows * args.horizon * COLUMNS:
        raise SystemExit(f"{len(crossed)} forecasts, not those of {windows} windows")
    error = (crossed[type(fitted).__name__] - crossed["y"]).to_numpy()
    report(float((error**2).mean()), float(abs(error).mean()), best.validations, seconds)


if __name__ == "__main__":
    main()
