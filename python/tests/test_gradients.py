"""Gradients of traced functions with respect to any values are the total derivatives of torch.autograd.grad."""

import numpy as np
import pytest

import landfall as lf

torch = pytest.importorskip("torch")


def values(rng, shape):
    return rng.normal(size=shape).astype("f8")


#: Functions of two matrices and how torch writes them where it has another name.
UNARY = [
    lambda m, x: x.tanh(),
    lambda m, x: x.sin(),
    lambda m, x: x[1:],
    lambda m, x: x[:, :2],
    lambda m, x: x.T,
    lambda m, x: m.softmax(x),
    lambda m, x: x * x[:1],
    lambda m, x: x.exp() / 8.0,
    lambda m, x: x.reshape(-1),
    lambda m, x: m.normed(x),
]
BINARY = [
    lambda m, x, y: x + y,
    lambda m, x, y: x * y,
    lambda m, x, y: x - 0.5 * y,
    lambda m, x, y: x @ y.T,
    lambda m, x, y: m.concat(x, y),
]


class Landfall:
    softmax = staticmethod(lambda x: x.softmax(axis=-1))
    normed = staticmethod(lambda x: lf.ops.l2_norm(x, eps=1e-3))
    concat = staticmethod(lambda x, y: lf.ops.concat(x, y, axis=0))
    total = staticmethod(lambda x: x.sum())


class Torch:
    softmax = staticmethod(lambda x: x.softmax(-1))
    normed = staticmethod(lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-3).sqrt())
    concat = staticmethod(lambda x, y: torch.cat([x, y], 0))
    total = staticmethod(lambda x: x.sum())


def random_function(seed):
    """A program as a list of calls on numbered values, the numbers of those that the loss reads, and of the targets."""
    rng = np.random.default_rng(seed)
    known = [torch.zeros(3, 3, dtype=torch.float64) for _ in range(2)]
    calls = []
    while len(calls) < 3 + seed % 9:
        # No call twice: equal calls are one value.
        a, b = (int(n) for n in rng.integers(len(known), size=2))
        if rng.random() < 0.6:
            call = (UNARY, int(rng.integers(len(UNARY))), (a,))
        else:
            call = (BINARY, int(rng.integers(len(BINARY))), (a, b))
        table, which, operands = call
        if any(call[1:] == other[1:] and call[0] is other[0] for other in calls):
            continue
        if which in (2, 3, 4, 6, 8) and table is UNARY and (known[a].ndim != 2 or min(known[a].shape) < 3):
            continue
        if table is BINARY and (known[a].shape != known[b].shape or known[a].ndim != 2 or known[a].shape[0] > 6):
            continue
        calls.append(call)
        known.append(table[which](Torch, *(known[n] for n in operands)))
    read = sorted({len(known) - 1, *(int(n) for n in rng.integers(len(known), size=3))})
    targets = [int(n) for n in rng.integers(len(known), size=4)]
    return calls, read, targets


def run(m, calls, read, x, y):
    made = [x, y]
    for table, which, operands in calls:
        made.append(table[which](m, *(made[n] for n in operands)))
    loss = None
    for k, n in enumerate(read):
        part = m.total((made[n] * (0.5 + k)).sin())
        loss = part if loss is None else loss + part
    return made, loss


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("twice", [False, True], ids=["first order", "second order"])
def test_random_targets(seed, twice):
    calls, read, targets = random_function(seed)
    rng = np.random.default_rng(1000 + seed)
    x, y = values(rng, (3, 3)), values(rng, (3, 3))
    tx, ty = (torch.tensor(v, requires_grad=True) for v in (x, y))
    made, loss = run(Torch, calls, read, tx, ty)
    grads = torch.autograd.grad(loss, made, create_graph=True, allow_unused=True)
    reached = [n for n in targets if grads[n] is not None] or [n for n, g in enumerate(grads) if g is not None]
    if twice:
        slope = sum((grads[n] * grads[n]).sum() for n in reached)
        # With respect to the arguments: of a value on the way it depends on whether a formula uses the result or the argument.
        second = torch.autograd.grad(slope, made[:2], allow_unused=True)
        again = [n for n, g in enumerate(second) if g is not None]
        want = [second[n] for n in again]
    else:
        want = [grads[n] for n in reached]

    def traced(x, y):
        made, loss = run(Landfall, calls, read, x, y)
        first = loss.gradients([made[n] for n in reached])
        if not twice:
            return first
        slope = None
        for g in first:
            part = (g * g).sum()
            slope = part if slope is None else slope + part
        return slope.gradients([made[n] for n in again])

    if not want:
        pytest.skip("the gradients are constant")
    got = lf.compile(traced, x, y)(x, y)
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        np.testing.assert_allclose(g.numpy(), w.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=f"target {n}")


def test_a_value_and_what_it_is_made_of():
    x = np.array([1, 2, 3], "f4")

    def cube(x):
        h = x * x
        loss = (h * x).sum()
        return loss.gradients([h, x, loss, x])

    of_h, of_x, of_loss, again = (g.numpy() for g in lf.compile(cube, x)(x))
    np.testing.assert_array_equal(of_h, [1, 2, 3])
    np.testing.assert_array_equal(of_x, [3, 12, 27])
    np.testing.assert_array_equal(again, of_x)
    assert of_loss.shape == () and of_loss == 1

    def part(x):
        s = x[1:]
        return ((s * s).sum() + x.sum()).gradients([x, s])

    of_x, of_s = (g.numpy() for g in lf.compile(part, x)(x))
    np.testing.assert_array_equal(of_x, [1, 5, 7])
    np.testing.assert_array_equal(of_s, [4, 6])


def test_what_has_no_gradient_is_refused():
    x = np.ones(3, "f4")
    with pytest.raises(lf.Error, match=r"does not depend on values\[1\]: no gradient path leads to it") as refused:
        lf.compile(lambda x: x.sum().gradients([x, x * x]), x)
    with pytest.raises(lf.Error, match=r"does not depend on values\[0\] \(y\)"):
        lf.compile(lambda x, y: x.sum().gradients([y]), x, x)
    with pytest.raises(lf.Error, match=r"a scalar of a float dtype, and this value is f32\[3\]") as vector:
        lf.compile(lambda x: x.gradients([x]), x)
    for text in (str(refused.value), str(vector.value)):
        assert ".rs" not in text and "freeze" not in text and "Graph::" not in text
    with pytest.raises(lf.DTypeError, match="i64"):
        lf.compile(lambda x, n: (x * n.cast(dtype="float32")).sum().gradients([n]), x, np.ones(3, "i8"))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_gradients_inside_of_a_training(dtype):
    """A penalty on the gradient of a loss with respect to a value and what it is made of."""
    rng = np.random.default_rng(3)
    x, weight = rng.normal(size=(8, 4)).astype("f4"), (0.3 * rng.normal(size=(4, 4))).astype("f4")

    def loss(batch, params):
        h = (batch["x"] @ params["weight"]).tanh()
        first = (h * (h @ params["weight"]).sin()).mean()
        of_h, of_x = first.gradients([h, batch["x"]])
        return first + 10.0 * (of_h * of_h).sum() + 10.0 * (of_x * of_x).sum()

    trainer = lf.Trainer(loss, {"weight": weight}, {"x": x}, batch=8, max_steps=1, lr=1e-3, dtype=dtype)
    for _ in range(20):
        if trainer.position == 0:
            trainer.step()
    (record,) = trainer.records(1, 1)
    w, data = torch.tensor(weight, requires_grad=True), torch.tensor(x, requires_grad=True)
    h = (data @ w).tanh()
    first = (h * (h @ w).sin()).mean()
    of_h, of_x = torch.autograd.grad(first, [h, data], create_graph=True)
    whole = first + 10 * (of_h * of_h).sum() + 10 * (of_x * of_x).sum()
    (gradient,) = torch.autograd.grad(whole, [w])
    bound = {"f32": 1e-5, "bf16": 3e-2, "f16": 4e-3}[dtype]
    np.testing.assert_allclose(record["loss"], whole.item(), rtol=bound)
    np.testing.assert_allclose(record["grad_norm"], gradient.norm().item(), rtol=bound)
