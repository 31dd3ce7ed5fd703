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


def test_the_op_is_well_made():
    x, gate = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    torch.library.opcheck(GATED, (x, gate), test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


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
