"""A Wasserstein GAN with gradient penalty learns a ring of eight Gaussians: `python examples/python/wgan.py`."""

import numpy as np

import landfall as lf

random = np.random.default_rng(1)


def network(name, outputs):
    sizes = {f"{name}.0": (2, 32), f"{name}.1": (32, 32), f"{name}.2": (32, outputs)}
    weights = {f"{layer}.weight": random.normal(size=size) / np.sqrt(size[0]) for layer, size in sizes.items()}
    weights |= {f"{layer}.bias": np.zeros(size[1]) for layer, size in sizes.items()}
    return {key: array.astype("float32") for key, array in weights.items()}


def forward(name, x, weights):
    for i in range(3):
        x = (x if i == 0 else x.leaky_relu(0.2)) @ weights[f"{name}.{i}.weight"] + weights[f"{name}.{i}.bias"]
    return x


def ring():
    angles = np.floor(8 * random.uniform(size=128)) * np.pi / 4
    return (np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.05 * random.normal(size=(128, 2))).astype("float32")


def train(updates):
    """Trains by so many updates of the generator; the Chamfer distance of its points and true ones after each."""
    critic, generator = network("critic", 1), network("generator", 2)
    adam, distances = lf.optim.Adam(betas=(0.5, 0.9)), []
    of_critic, of_generator = (lf.optim.Minimiser(params, adam, lr=2e-3) for params in (critic, generator))

    def criticise(real, mix, codes, **weights):
        fake = forward("generator", codes, weights)
        between = fake + mix * (real - fake)
        (slope,) = forward("critic", between, weights).sum().gradients([between])
        penalty = (((slope.square().sum(axes=1) + 1e-12).sqrt() - 1) ** 2).mean()
        gap = forward("critic", fake, weights).mean() - forward("critic", real, weights).mean()
        return of_critic.minimise(gap + penalty, weights)

    def generate(codes, **weights):
        fake = forward("generator", codes, weights)
        of_generator.minimise(-forward("critic", fake, weights).mean(), weights)
        return fake

    first = lf.compile(criticise, ring(), lf.spec((128, 1)), ring(), params=critic | generator)
    second = lf.compile(generate, ring(), params=critic | generator)
    for step in range(4 * updates):
        codes = random.normal(size=(128, 2)).astype("float32")
        first(ring(), random.uniform(size=(128, 1)).astype("float32"), codes)
        if step % 4 == 3:
            apart = np.linalg.norm(second(codes).numpy()[:, None] - ring(), axis=2)
            distances.append(apart.min(axis=0).mean() + apart.min(axis=1).mean())
    return distances


if __name__ == "__main__":
    print("distance of the points:", *(f"{d:.3f}" for d in train(1000)[::100]))
