"""An encoder and decoder with attention that sort tokens, and a beam search: `python examples/python/sorting.py`, about ten seconds
on two cores.
"""

import numpy as np

import landfall as lf

PAD, START, END, TOKENS = 0, 1, 2, 13  # numbers from 3 on are sorted
LENGTH, FEATURES, HEADS, BEAM = 7, 32, 4, 4


def sequences(random, count):
    """Tokens `[count, LENGTH]`, and START, the same in order, END: both with PAD at the end."""
    source = random.integers(3, TOKENS, (count, LENGTH))
    source[np.arange(LENGTH) >= random.integers(3, LENGTH + 1, (count, 1))] = PAD
    target = np.full((count, LENGTH + 2), PAD)
    for row, tokens in zip(target, source, strict=True):
        tokens = [START, *sorted(tokens[tokens != PAD]), END]
        row[: len(tokens)] = tokens
    return source, target


def initial(random):
    """Initial values by name."""
    layer = lambda rows, columns: (random.normal(size=(rows, columns)) / rows**0.5).astype("float32")
    p = {"tokens": layer(TOKENS, FEATURES), "places": layer(LENGTH + 2, FEATURES), "head": layer(FEATURES, TOKENS)}
    for name in ("encoder.self", "encoder.wide", "decoder.self", "decoder.cross", "decoder.wide"):
        p |= {f"{name}.scale": np.ones(FEATURES, "float32"), f"{name}.shift": np.zeros(FEATURES, "float32")}
        if name.endswith("wide"):
            p |= {f"{name}.in": layer(FEATURES, 4 * FEATURES), f"{name}.out": layer(4 * FEATURES, FEATURES)}
        else:
            p |= {f"{name}.{part}": layer(FEATURES, FEATURES) for part in ("query", "key", "value", "out")}
    return p


def norm(x, p, name):
    return x.layer_norm(p[f"{name}.scale"], p[f"{name}.shift"])


def attend(x, context, p, name, **visible):
    """`x` `[B, M, FEATURES]` over a context `[B, N, FEATURES]`; `attend` takes tokens before heads, so nothing is transposed."""
    heads = lambda x, part: (x @ p[f"{name}.{part}"]).reshape(*x.shape[:2], HEADS, -1)
    y = heads(x, "query").attend(heads(context, "key"), heads(context, "value"), **visible)
    return y.reshape(*x.shape) @ p[f"{name}.out"]


def wide(x, p, name):
    return x + (norm(x, p, name) @ p[f"{name}.in"]).gelu() @ p[f"{name}.out"]


def embed(ids, p):
    return p["tokens"].embedding(ids) + p["places"][: ids.shape[1]]


def lengths(source):
    """How many tokens there are before PAD, `[B]`."""
    return (source != PAD).cast("int64").sum(axes=1)


def encode(source, p):
    h = norm(x := embed(source, p), p, "encoder.self")
    return wide(x + attend(h, h, p, "encoder.self", lengths=lengths(source)), p, "encoder.wide")


def decode(target, context, source, p):
    """Logits `[B, M, TOKENS]` of the token behind each of `target` `[B, M]`."""
    h = norm(x := embed(target, p), p, "decoder.self")
    x = x + attend(h, h, p, "decoder.self", causal=True)
    x = x + attend(norm(x, p, "decoder.cross"), context, p, "decoder.cross", lengths=lengths(source))
    return wide(x, p, "decoder.wide") @ p["head"]


def loss(batch, p):
    source, target = batch["source"], batch["target"]
    return decode(target[:, :-1], encode(source, p), source, p).cross_entropy(target[:, 1:], ignored=PAD)


class Search:
    """A beam search. `jit` makes a program for each length of the beam's sequences, when it is first needed."""

    def __init__(self, params):
        self.encode = lf.jit(lambda source, **p: encode(source, p), params=params)
        self.decode = lf.jit(
            lambda target, context, source, **p: decode(target, context, source, p)[:, -1].log_softmax(), params=params
        )

    def next(self, target, context, source):
        """The logarithms of the probabilities of the next token, `[B, TOKENS]`."""
        return self.decode(target, context, source).numpy()

    def __call__(self, source):
        """The most probable sequence that the beam holds, from `source` `[LENGTH]`."""
        context = self.encode(source[None]).numpy()
        beam, scores, done = np.array([[START]]), np.zeros(1), []
        while len(beam) and beam.shape[1] < LENGTH + 2:
            count = len(beam)
            known = np.repeat(context, count, axis=0), np.repeat(source[None], count, axis=0)
            scores = scores[:, None] + self.next(beam, *known)
            best = np.argsort(-scores, axis=None)[:BEAM]
            row, token = np.divmod(best, TOKENS)
            beam, scores = np.concatenate([beam[row], token[:, None]], axis=1), scores[row, token]
            done += [(score, tokens) for score, tokens in zip(scores, beam, strict=True) if tokens[-1] == END]
            beam, scores = beam[token != END], scores[token != END]
        return max(done, key=lambda item: item[0] / len(item[1]), default=(0, np.array([START])))[1]


def main(epochs=4):
    random = np.random.default_rng(0)
    source, target = sequences(random, 8192)
    options = {"batch": 64, "epochs": epochs, "lr": 4e-3, "optimizer": "adamw", "schedule": "one-cycle", "clip": 1.0}
    trainer = lf.Trainer(loss, initial(random), {"source": source, "target": target}, **options)
    trainer.fit(lambda record: print(f"step {record['step']:.0f}: loss {record['loss']:.3f}"), every=128)

    search = Search(trainer.state_dict())
    tests = list(zip(*sequences(np.random.default_rng(1), 200), strict=True))
    right = sum(np.array_equal(search(source), target[target != PAD]) for source, target in tests)
    print(f"{right} of {len(tests)} unseen sequences are sorted")
    return right / len(tests)


if __name__ == "__main__":
    main()
