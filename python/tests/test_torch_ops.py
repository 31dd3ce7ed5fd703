"""Programs as ops of torch: results, gradients, compilation, state dictionaries."""

import numpy as np
import pytest

import landfall as lf

torch = pytest.importorskip("torch")
import landfall.torch as lt  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def gated(x, gate):
    return x * gate * gate.sigmoid()


def reference(x, gate):
    return x * torch.nn.functional.silu(gate)


def normal(*shape):
    return torch.randn(shape, requires_grad=True)


GATED = lt.op("landfall_tests::gated", gated, torch.empty(2, 3), torch.empty(2, 3))


@pytest.mark.parametrize("device", DEVICES)
def test_results_and_gradients(device):
    for shape in [(4, 5), (2, 3, 7), (1,)]:
        x, gate = (torch.randn(shape, device=device, requires_grad=True) for _ in range(2))
        y = GATED(x, gate)
        torch.testing.assert_close(y, reference(x, gate))
        cotangent = torch.randn(shape, device=device)
        expected = torch.autograd.grad(reference(x, gate), [x, gate], cotangent)
        for got, wanted in zip(torch.autograd.grad(y, [x, gate], cotangent), expected):
            torch.testing.assert_close(got, wanted)


def counts(x, index):
    """Results of three dtypes, of which two are not differentiable. (opcheck adds results to the first, which so is of floats.)"""
    return lf.ops.gather(x, index, axis=0) * 2.0, x.argmax(axis=-1), x > 0.0


def pairs(x, y, mask):
    """Of two float dtypes, and an argument of truth values."""
    return (x * x).where(mask, 0.0).sum(axes=0), y.exp()


#: Ops by name: the function, and its arguments.
MADE = {
    "gated": (gated, lambda: (normal(3, 4), normal(3, 4))),
    "one_argument": (lambda x: x.softmax(axis=-1), lambda: (normal(2, 5),)),
    "scalar": (lambda x: (x * x).sum(), lambda: (normal(4),)),
    "matmul": (lambda x, y: x @ y, lambda: (normal(3, 4), normal(4, 2))),
    "layer_norm": (lambda x, w, b: x.layer_norm(w, b), lambda: (normal(2, 6), normal(6), normal(6))),
    "transposed": (lambda x: x.T + 1.0, lambda: (normal(3, 2),)),
    "unused": (lambda x, y: x.tanh() + 0.0, lambda: (normal(3), normal(2))),
    "integers": (lambda x: (x + 1, x.argmax(axis=0)), lambda: (torch.arange(5),)),
    "truth": (lambda x: x > 0.0, lambda: (normal(4),)),
    "counts": (counts, lambda: (normal(5, 2), torch.tensor([4, 0, 4]))),
    "pairs": (
        pairs,
        lambda: (normal(3, 2), normal(4).double().detach().requires_grad_(), torch.tensor([[True, False]] * 3)),
    ),
    "half": (lambda x: x.silu(), lambda: (normal(8).bfloat16().detach().requires_grad_(),)),
}
OPS = {
    name: lt.op(f"landfall_tests::made_{name}", f, *(a.detach() for a in args())) for name, (f, args) in MADE.items()
}


@pytest.mark.parametrize("name", MADE)
def test_ops_are_well_made(name):
    args = MADE[name][1]()
    checks = torch.library.opcheck(OPS[name], args, test_utils="ALL")
    assert set(checks.values()) == {"SUCCESS"}
    assert {"test_aot_dispatch_static", "test_aot_dispatch_dynamic"} <= checks.keys()


def test_results_of_several_dtypes():
    x, index = normal(5, 2), torch.tensor([4, 0, 4])
    rows, best, positive = OPS["counts"](x, index)
    assert (best.dtype, rows.dtype, positive.dtype) == (torch.int64, torch.float32, torch.bool)
    torch.testing.assert_close(best, x.argmax(-1))
    torch.testing.assert_close(positive, x > 0)
    assert rows.requires_grad and not best.requires_grad and not positive.requires_grad
    rows.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[2.0, 2.0], [0, 0], [0, 0], [0, 0], [4, 4]]))


def test_a_result_of_integers_may_come_first():
    op = lt.op("landfall_tests::integers_first", lambda x: (x.argmax(axis=0), x.exp()), torch.empty(3))
    x = normal(3)
    best, grown = op(x)
    assert best.item() == x.argmax().item() and not best.requires_grad
    torch.testing.assert_close(torch.autograd.grad(grown.sum(), [x])[0], x.exp())


def test_gradients_of_two_dtypes_and_none_of_truth_values():
    x, y, mask = MADE["pairs"][1]()
    total, grown = OPS["pairs"](x, y, mask)
    gx, gy = torch.autograd.grad([total.sum(), grown.sum()], [x, y])
    torch.testing.assert_close(gx, torch.where(mask, 2 * x, 0.0))
    torch.testing.assert_close(gy, y.exp())
    # One of the results alone.
    torch.testing.assert_close(torch.autograd.grad(OPS["pairs"](x, y, mask)[1].sum(), [y])[0], y.exp())


def test_an_unused_argument_has_zeros():
    x, y = normal(3), normal(2)
    gx, gy = torch.autograd.grad(OPS["unused"](x, y).sum(), [x, y])
    torch.testing.assert_close(gx, 1 - x.tanh() ** 2)
    torch.testing.assert_close(gy, torch.zeros(2))


def test_ops_of_integers_have_no_gradient():
    more, best = OPS["integers"](torch.arange(5))
    assert more.tolist() == [1, 2, 3, 4, 5] and best.item() == 4
    assert not OPS["truth"](normal(4)).requires_grad


def test_programs_of_an_op_are_limited():
    traced = []
    op = lt.op("landfall_tests::limited", lambda x: traced.append(x.shape) or x * 2, torch.empty(1), limit=2)
    for size in (1, 2, 3, 3, 1):
        x = torch.randn(size)
        torch.testing.assert_close(op(x), 2 * x)
    traced.clear()
    op(torch.randn(3)), op(torch.randn(1))
    assert traced == []
    op(torch.randn(2))
    assert (2,) in traced


def test_what_is_no_example():
    with pytest.raises(lf.ArgumentError, match="give an example"):
        lt.op("landfall_tests::none", lambda: 1)
    with pytest.raises(lf.ArgumentError, match="example 1 is 2.0; it must be a tensor of torch"):
        lt.op("landfall_tests::number", lambda x, y: x * y, torch.empty(1), 2.0)


@pytest.mark.parametrize("device", DEVICES)
def test_several_results_and_integers(device):
    def f(x, index):
        rows = lf.ops.gather(x, index, axis=0)
        return rows * 2.0, rows.sum()

    op = lt.op(f"landfall_tests::rows_{device}", f, torch.empty(5, 2), torch.empty(3, dtype=torch.int64))
    x = torch.randn(5, 2, device=device, requires_grad=True)
    index = torch.tensor([4, 0, 4], device=device)
    doubled, total = op(x, index)
    torch.testing.assert_close(doubled, 2 * x[index])
    (gradient,) = torch.autograd.grad(doubled.sum() + 3 * total, [x])
    expected = torch.zeros(5, 2, device=device)
    expected.index_add_(0, index, torch.full((3, 2), 5.0, device=device))
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_in_torch_compile(device):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def model(x, gate):
        return (GATED(x, gate) + 1.0).sum()

    x, gate = (torch.randn(6, 2, device=device, requires_grad=True) for _ in range(2))
    value = model(x, gate)
    torch.testing.assert_close(value, (reference(x, gate) + 1.0).sum())
    value.backward()
    expected = torch.autograd.grad(reference(x, gate).sum(), [x])[0]
    torch.testing.assert_close(x.grad, expected)


def test_params_of_a_module_are_read_where_they_lie():
    module = torch.nn.Linear(4, 3)
    params = {"weight": module.weight.detach(), "bias": module.bias.detach()}
    x = torch.randn(8, 4)
    program = lf.compile(lambda x, weight, bias: x @ weight.T + bias, x, params=params)
    for _ in range(3):
        out = torch.empty(8, 3)
        assert program(x, out=out) is out
        torch.testing.assert_close(out, module(x).detach())
        module(x).square().sum().backward()
        with torch.no_grad():
            for p in module.parameters():
                p -= 0.1 * p.grad


# Gradient descent on a parabola: the loss falls in each step.
DESCENT = {"optimizer": "sgd", "betas": (0.0, 0.0), "order": "sequential"}


def test_state_dictionaries(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 1)
    x, y = torch.randn(64, 4), torch.randn(64, 1)

    def loss(batch, params):
        return ((batch["x"] @ params["weight"].T + params["bias"] - batch["y"]) ** 2).mean()

    start = {name: p.detach() for name, p in module.named_parameters()}
    trainer = lf.Trainer(loss, start, {"x": x, "y": y}, batch=64, epochs=20, lr=0.05, **DESCENT)
    losses = trainer.fit()
    before = torch.nn.functional.mse_loss(module(x), y).item()
    np.testing.assert_allclose(losses[0], before, rtol=1e-5)
    module.load_state_dict(lt.state_dict(trainer.state_dict()))
    after = torch.nn.functional.mse_loss(module(x), y).item()
    assert after < losses[-1] < losses[0]
    lf.save(tmp_path / "m.safetensors", module.state_dict())
    read = lt.state_dict(lf.load(tmp_path / "m.safetensors"))
    torch.testing.assert_close(read, dict(module.state_dict()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_a_captured_graph_of_torch_replays_the_program():
    x, gate = (torch.randn(64, 128, device="cuda") for _ in range(2))
    # Compiled outside of the capture, as torch asks of every op.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        GATED(x, gate)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = GATED(x * 2, gate) + 1
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, reference(x * 2, gate) + 1)


def test_a_function_that_draws_is_refused():
    with pytest.raises(lf.ArgumentError, match="draw them with torch, and pass them as an argument"):
        lt.op("mine::noisy", lambda x: x + lf.normal(x.shape), torch.zeros(3))
