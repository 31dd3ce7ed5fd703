"""A mixture density network (Bishop, 1994): all values that an input may have, where a mean is none of them. Runs in a few seconds:
`python examples/python/mixture_density.py`.
"""

import math

import numpy as np

import landfall as lf

PARTS, WIDTH, NOISE = 4, 48, 0.05


def samples(random, count):
    """`x = t + 0.3 sin(2πt) + noise`, of which t is asked: up to three values for one x."""
    t = random.uniform(0, 1, (count, 1))
    return (t + 0.3 * np.sin(2 * np.pi * t) + random.normal(0, NOISE, t.shape)).astype("float32"), t.astype("float32")


def true_log_density(x, y):
    """What no model can exceed in the mean: the density that the samples are drawn from."""
    normal = lambda t: np.exp(-0.5 * ((x - t - 0.3 * np.sin(2 * np.pi * t)) / NOISE) ** 2)
    return np.log(normal(y) / normal(np.linspace(0, 1, 1001)).mean(axis=1, keepdims=True))


def initial(random, outputs):
    """Initial values by name, the centers of the parts at different places."""
    layer = lambda rows, columns: (random.normal(size=(rows, columns)) / rows**0.5).astype("float32")
    centers = np.zeros((3, outputs // 3), "float32")
    centers[1] = np.linspace(0, 1, outputs // 3)
    p = {"first.weight": layer(1, WIDTH), "second.weight": layer(WIDTH, WIDTH), "last.weight": layer(WIDTH, outputs)}
    zeros = np.zeros(WIDTH, "float32")
    return p | {"first.bias": zeros, "second.bias": zeros, "last.bias": centers.reshape(-1)}


def mixture(x, p):
    """Logarithms of the weights, centers and logarithms of the widths of the parts, `[B, PARTS]` each."""
    h = (x @ p["first.weight"] + p["first.bias"]).tanh()
    h = (h @ p["second.weight"] + p["second.bias"]).tanh() @ p["last.weight"] + p["last.bias"]
    parts = h.shape[1] // 3
    return h[:, :parts].log_softmax(), h[:, parts : 2 * parts], h[:, 2 * parts :].clamp(-5.0, 1.0)


def log_density(x, y, p):
    """The logarithm of the density of `y` `[B, 1]` at `x` `[B, 1]`: `[B]`."""
    weight, center, width = mixture(x, p)
    z = (y - center) / width.exp()
    return (weight - 0.5 * z**2 - width - 0.5 * math.log(2 * math.pi)).logsumexp(axes=-1)


def train(parts, data, epochs):
    options = {"batch": 128, "epochs": epochs, "lr": 5e-3, "schedule": "cosine", "clip": 1.0}
    loss = lambda batch, p: -log_density(batch["x"], batch["y"], p).mean()
    trainer = lf.Trainer(loss, initial(np.random.default_rng(0), 3 * parts), data, **options)
    trainer.fit()
    return trainer.state_dict()


def main(epochs=80):
    random = np.random.default_rng(1)
    x, y = samples(random, 4096)
    new_x, new_y = samples(random, 2048)
    densities = {}
    for parts in (1, PARTS):
        weights = train(parts, {"x": x, "y": y}, epochs)
        measure = lf.compile(lambda x, y, **p: log_density(x, y, p).mean(), new_x, new_y, params=weights)
        densities[parts] = float(measure(new_x, new_y))
        print(f"mean log density of unseen samples, {parts} normal distribution(s): {densities[parts]:.3f}")
    densities["true"] = float(true_log_density(new_x, new_y).mean())
    print(f"the best possible: {densities['true']:.3f}")

    middle = np.array([[0.5]], "float32")
    weight, center, width = lf.compile(lambda x, **p: mixture(x, p), middle, params=weights)(middle)
    print("at x = 0.5:")
    for part in np.argsort(-weight.numpy()[0]):
        print(
            f"  {np.exp(weight.numpy()[0, part]):4.0%} near {center.numpy()[0, part]:.2f} ± {np.exp(width.numpy()[0, part]):.2f}"
        )
    return densities


if __name__ == "__main__":
    main()
