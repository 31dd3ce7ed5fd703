"""JAX peer: PatchTST training steps and single ops. See protocol.py for how it is talked to.

Modes: jit, and scan (several steps of one lax.scan under jit; step rows only).
The random generator is XLA's own, which is the fastest. Products of f32 are strict on a GPU too, which is not JAX's
default; those of tf32 use TF32.
"""

import itertools
import math
import os

import protocol
import rows

MODES = {device: ["jit", "scan"] for device in ("cpu", "cuda")}
args = protocol.arguments(MODES)
os.environ["JAX_PLATFORMS"] = args.device
# Other sides hold memory of the same GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402  (after its processors are chosen)
from jax import lax, nn, random  # noqa: E402
from jax import numpy as jnp  # noqa: E402

jax.config.update("jax_default_prng_impl", "rbg")
DTYPES = {"f32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16}
PRECISIONS = {"f32": "highest", "tf32": "tensorfloat32", "bf16": "default"}
SCANNED = 32 if args.device == "cuda" else 8


def initial(c, key):
    """Parameters; weights are [inputs, outputs]."""
    keys = iter(random.split(key, 4 * c["layers"] + 3))
    n, d = rows.patches(c), c["d_model"]

    def uniform(shape, limit):
        return random.uniform(next(keys), shape, minval=-limit, maxval=limit)

    def linear(inputs, outputs):
        return {"weight": uniform((inputs, outputs), inputs**-0.5), "bias": jnp.zeros(outputs)}

    def norm():
        return {"weight": jnp.ones(d), "bias": jnp.zeros(d)}

    def layer():
        return {
            "qkv": linear(d, 3 * d), "out": linear(d, d), "expand": linear(d, c["d_ff"]),
            "contract": linear(c["d_ff"], d), "norm_attention": norm(), "norm_feed_forward": norm(),
        }

    return {
        "embed": linear(c["patch"], d), "positions": uniform((n, d), 0.02),
        "layers": [layer() for _ in range(c["layers"])], "head": linear(n * d, c["horizon"]),
    }


def normalised(x, axes, weight, bias):
    wide = x.astype(jnp.float32)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5) * weight + bias).astype(x.dtype)


def dropped(key, x, rate):
    if rate == 0:
        return x
    return jnp.where(random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0).astype(x.dtype)


def predict(c, p, x, key, dtype):
    """[batch, channels, context] to [batch, channels, horizon]."""
    n, heads, rate = rows.patches(c), c["heads"], c["dropout"]
    axes = (0, 1) if c["norm"] == "batch" else (-1,)
    keys = iter(random.split(key, 3 * c["layers"])) if rate else itertools.repeat(None)

    def linear(layer, h):
        return h @ layer["weight"].astype(dtype) + layer["bias"].astype(dtype)

    def norm(layer, h):
        return normalised(h, axes, layer["weight"], layer["bias"])

    mean = x.mean(-1, keepdims=True)
    std = jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    z = ((x - mean) / std).reshape(-1, c["context"])
    if c["padding"]:
        z = jnp.pad(z, ((0, 0), (0, c["stride"])), mode="edge")
    at = jnp.arange(n)[:, None] * c["stride"] + jnp.arange(c["patch"])
    h = linear(p["embed"], z[:, at].astype(dtype)) + p["positions"].astype(dtype)
    for layer in p["layers"]:
        q, k, v = jnp.split(linear(layer["qkv"], h).reshape(*h.shape[:2], 3 * heads, -1), 3, axis=2)
        attended = nn.dot_product_attention(q, k, v).reshape(h.shape)
        h = norm(layer["norm_attention"], h + dropped(next(keys), linear(layer["out"], attended), rate))
        hidden = nn.gelu(linear(layer["expand"], h), approximate=False)
        contracted = linear(layer["contract"], dropped(next(keys), hidden, rate))
        h = norm(layer["norm_feed_forward"], h + dropped(next(keys), contracted, rate))
    y = linear(p["head"], h.reshape(h.shape[0], -1)).astype(jnp.float32)
    return y.reshape(*x.shape[:2], -1) * std + mean


def precisely(dtype, run):
    """`run` with the products of a dtype: read when a function is traced, and part of what it is cached by."""

    def within(steps):
        with jax.default_matmul_precision(PRECISIONS[dtype]):
            return run(steps)

    return within


def moments(parameters):
    """AdamW's state before the first update: their number, first and second moments."""
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return jnp.zeros((), jnp.int32), zeros, zeros


def adamw(parameters, gradients, state):
    """One update of AdamW (Loshchilov and Hutter 2019) with PyTorch's default rates."""
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    first_scale, second_scale = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)

    def updated(p, m, v):
        change = m * first_scale / (jnp.sqrt(v * second_scale) + 1e-8)
        return p - rows.LEARNING_RATE * (change + rows.WEIGHT_DECAY * p)

    return jax.tree.map(updated, parameters, first, second), (count, first, second)


def clipped(gradients):
    """Gradients whose global norm is at most 1."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1, 1 / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, gradients)


def training(c, name, mode):
    dtype = DTYPES[name]
    length = c["context"] + c["horizon"]
    series = jnp.cumsum(random.normal(random.key(1), (c["channels"], rows.WINDOWS + length)), -1) * 0.1
    starts = random.randint(random.key(2), (256, c["batch"]), 0, rows.WINDOWS)
    offsets = jnp.arange(length)

    def step(carry, start):
        p, state, key = carry
        key, now = random.split(key)
        window = jnp.moveaxis(series[:, start[:, None] + offsets], 1, 0)
        x, target = window[..., : c["context"]], window[..., c["context"] :]
        loss, gradients = jax.value_and_grad(
            lambda p: jnp.mean((predict(c, p, x, now, dtype) - target) ** 2)
        )(p)
        p, state = adamw(p, clipped(gradients), state)
        return (p, state, key), loss

    parameters = initial(c, random.key(0))
    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(parameters))
    # Moments that share zeros cannot both be given back to the step.
    carry = jax.tree.map(jnp.copy, (parameters, moments(parameters), random.key(3)))
    if mode == "scan":
        call = jax.jit(lambda carry, starts: lax.scan(step, carry, starts), donate_argnums=0)
        batches = itertools.cycle(starts.reshape(-1, SCANNED, c["batch"]))
        multiple = SCANNED
    else:
        call = jax.jit(step, donate_argnums=0)
        batches = itertools.cycle(list(starts))
        multiple = 1

    def run(steps):
        nonlocal carry
        found = []
        for _ in range(steps // multiple):
            carry, loss = call(carry, next(batches))
            found.append(loss)
        jax.block_until_ready(carry)
        return found

    run = precisely(name, run)

    def losses():
        return [float(x) for loss in run(max(8, multiple)) for x in jnp.ravel(loss)]

    return protocol.Timed(run, losses, count, multiple)


def op_call(row, dtype):
    """A function and its arguments."""
    op, sizes = rows.parse_op(row)
    op = op.removeprefix("large-").removeprefix("half-")
    keys = iter(random.split(random.key(0), 8))

    def some(*shape):
        return random.normal(next(keys), shape, dtype)

    def backward(f, *inputs):
        """The backward pass alone of `f`: what it saved is its argument."""
        saved = jax.tree.map(lambda x: x, jax.vjp(f, *inputs)[1])
        return (lambda saved, cotangent: saved(cotangent)), (saved, some(*sizes))

    def layer_norm(x, weight, bias):
        return normalised(x, (-1,), weight, bias)

    def batch_norm(x, weight, bias):
        return normalised(x, (0,), weight, bias)

    def gelu(x):
        return nn.gelu(x, approximate=False)

    if op == "matmul":
        m, k, n = sizes
        return (lambda x, w, b: x @ w.T + b), (some(m, k), some(n, k), some(n))
    if op == "matmul-weight-grad":
        m, k, n = sizes
        return (lambda x, cotangent: cotangent.T @ x), (some(m, k), some(m, n))
    if op == "matmul-input-grad":
        m, k, n = sizes
        return (lambda cotangent, w: cotangent @ w), (some(m, n), some(n, k))
    if op == "softmax":
        return nn.softmax, (some(*sizes),)
    if op == "layer-norm":
        return layer_norm, (some(*sizes), some(sizes[-1]), some(sizes[-1]))
    if op == "layer-norm-grad":
        return backward(layer_norm, some(*sizes), some(sizes[-1]), some(sizes[-1]))
    if op == "batch-norm":
        return batch_norm, (some(*sizes), some(sizes[-1]), some(sizes[-1]))
    if op == "batch-norm-grad":
        return backward(batch_norm, some(*sizes), some(sizes[-1]), some(sizes[-1]))
    if op == "gelu":
        return gelu, (some(*sizes),)
    if op == "gelu-grad":
        return backward(gelu, some(*sizes))
    if op == "dropout":
        return (lambda x, key: dropped(key, x, rows.DROPOUT)), (some(*sizes), next(keys))
    if op == "attention":
        return nn.dot_product_attention, tuple(some(*sizes) for _ in range(3))
    if op == "attention-train":

        def both(q, k, v, cotangent):
            return jax.vjp(nn.dot_product_attention, q, k, v)[1](cotangent)

        return both, tuple(some(*sizes) for _ in range(4))
    if op == "copy":
        return jnp.copy, (some(*sizes),)
    if op == "transpose":
        return jnp.transpose, (some(*sizes),)
    if op == "sum-rows":
        return (lambda x: x.sum(1)), (some(*sizes),)
    if op == "sum-columns":
        return (lambda x: x.sum(0)), (some(*sizes),)
    if op == "add":
        return jnp.add, (some(*sizes), some(*sizes))
    raise ValueError(f"no op {op}")


def adam(sizes):
    """The update of parameters that are kept; its buffers are given back to it."""
    gradient, parameter = random.normal(random.key(0), (2, *sizes))

    def update(carry, gradient):
        parameter, state = carry
        return adamw(parameter, gradient, state)

    call = jax.jit(update, donate_argnums=0)
    carry = jax.tree.map(jnp.copy, (parameter, moments(parameter)))

    def run(steps):
        nonlocal carry
        for _ in range(steps):
            carry = call(carry, gradient)
        jax.block_until_ready(carry)

    return protocol.Timed(run)


def build(row, dtype, mode):
    if dtype not in DTYPES or (dtype == "tf32" and args.device == "cpu"):
        raise ValueError(f"no {dtype} on {args.device}")
    if row in rows.STEPS:
        if "tokens" in rows.STEPS[row] or "model" in rows.STEPS[row]:
            return None
        return training(rows.STEPS[row], dtype, mode)
    if mode == "scan":
        return None
    op, sizes = rows.parse_op(row)
    if op == "adam":
        return adam(sizes)
    function, inputs = op_call(row, DTYPES[dtype])
    call = jax.jit(function)

    def run(steps):
        # One after the other: calls in flight together would overlap and share no cost of their own.
        for _ in range(steps):
            jax.block_until_ready(call(*inputs))

    return protocol.Timed(precisely(dtype, run))


protocol.serve(args, "jax", jax.__version__, MODES[args.device], build)
