"""Handwritten digits by a diffusion model (Ho et al., 2020): `python examples/python/diffusion.py`, about ten seconds on two cores.

The noise of a training step is drawn inside the step, and all steps of sampling are one program.
"""

import math
import pathlib

import numpy as np

import landfall as lf

DIGITS = pathlib.Path(__file__).parents[1] / "digits" / "digits.csv"
WIDTH, STEPS = 256, 50


def initial(random):
    """Initial values by name."""
    layer = lambda rows, columns: (random.normal(size=(rows, columns)) / rows**0.5).astype("float32")
    return {
        "pixels": layer(64, WIDTH),
        "label": layer(10, WIDTH),
        "time": layer(16, WIDTH),
        "frequency": np.float32(2.0) ** np.arange(8, dtype="float32"),
        "first": layer(WIDTH, WIDTH),
        "second": layer(WIDTH, WIDTH),
        "scale": np.ones(WIDTH, "float32"),
        "shift": np.zeros(WIDTH, "float32"),
        "image": layer(WIDTH, 64),
    }


def denoised(x, digit, time, p):
    """What images `[B, 64]` of digits `[B]` are without their noise, at times `[B, 1]` from 0, no noise, to 1, noise alone."""
    angle = time * p["frequency"]
    h = x @ p["pixels"] + p["label"].embedding(digit) + angle.sin().concat(angle.cos(), axis=-1) @ p["time"]
    h = h + (h.silu() @ p["first"]).silu() @ p["second"]
    return h.layer_norm(p["scale"], p["shift"]).silu() @ p["image"]


def loss(batch, p):
    x = batch["x"]
    time, noise = lf.uniform((x.shape[0], 1)), lf.normal(x.shape)
    angle = time * (math.pi / 2)
    return ((denoised(x * angle.cos() + noise * angle.sin(), batch["digit"], time, p) - x) ** 2).mean()


def sample(digit, **p):
    """Images of these digits by the steps of Song et al. (2021): the loop is unrolled, so that one run takes all of them."""
    count = digit.shape[0]
    x = lf.normal((count, 64))
    for step in range(STEPS, 0, -1):
        angle, before = math.pi / 2 * step / STEPS, math.pi / 2 * (step - 1) / STEPS
        image = denoised(x, digit, x.fill((count, 1), step / STEPS), p)
        noise = (x - image * math.cos(angle)) / math.sin(angle)
        x = image * math.cos(before) + noise * math.sin(before)
    return x


def read():
    """Images `[1797, 64]` from -1 to 1, and their digits."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype="float32")
    return table[:, :64] / 8 - 1, table[:, 64].astype("int64")


def nearest(images, x, digit):
    """For each image the digit of the nearest of `x`."""
    return digit[((images[:, None] - x) ** 2).sum(axis=-1).argmin(axis=-1)]


def main(epochs=80):
    x, digit = read()
    options = {"batch": 128, "epochs": epochs, "lr": 2e-3, "optimizer": "adamw", "schedule": "cosine", "average": 0.99}
    trainer = lf.Trainer(loss, initial(np.random.default_rng(0)), {"x": x, "digit": digit}, **options)
    losses = trainer.fit(lambda record: print(f"step {record['step']:.0f}: loss {record['loss']:.3f}"), every=400)

    asked = np.repeat(np.arange(10), 10)
    draw = lf.compile(sample, asked, params=trainer.state_dict(average=True), seed=1)
    images = draw(asked).numpy()
    for row in images[::10].reshape(2, 5, 8, 8).transpose(0, 2, 1, 3).reshape(16, 5, 8):
        print(
            "   ".join("".join(" .:#@"[min(4, max(0, int(pixel * 2.5 + 2.5)))] * 2 for pixel in part) for part in row)
        )
    share = (nearest(images, x, digit) == asked).mean()
    print(f"{share:.0%} of the images are nearest to an image of the digit that was asked for")
    return np.mean(losses[-50:]), share


if __name__ == "__main__":
    main()
