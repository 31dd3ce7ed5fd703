"""Names of arguments, parameters and results share no place by accident, and no array is written that was not named."""

import numpy as np
import pytest

import landfall as lf

X = np.array([1, 2, 3], "f4")


def filled(value, n=3):
    return np.full(n, value, "f4")


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda out: out + 1, [2, 3, 4]),
        (lambda self: self + 1, [2, 3, 4]),
        (lambda x: {"x": x + 1}, {"x": [2, 3, 4]}),
        (lambda x: {"out": x + 1, "x": x * 2}, {"out": [2, 3, 4], "x": [2, 4, 6]}),
        (lambda out0: (out0 * 2, out0 + out0 * out0), ([2, 4, 6], [2, 6, 12])),
        (lambda *out: (out[0] * 2, out[0] + 1), ([2, 4, 6], [2, 3, 4])),
        (lambda x: {"x": x}, {"x": [1, 2, 3]}),
        (lambda w: {"loss": (w * w).sum(), "w": (w * w).sum().gradients([w])[0]}, {"loss": 14, "w": [2, 4, 6]}),
    ],
)
def test_results_are_never_arguments(function, expected):
    program = lf.compile(function, X)
    got = program(X)
    if isinstance(expected, dict):
        out = {name: np.zeros_like(np.asarray(value, "f4")) for name, value in expected.items()}
        assert program(X, out=out) is out
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name].numpy(), value)
            np.testing.assert_array_equal(out[name], value)
    elif isinstance(expected, tuple):
        out = tuple(np.zeros(3, "f4") for _ in expected)
        assert program(X, out=out) is out
        for mine, theirs, value in zip(got, out, expected):
            np.testing.assert_array_equal(mine.numpy(), value)
            np.testing.assert_array_equal(theirs, value)
    else:
        out = np.zeros(3, "f4")
        assert program(X, out=out) is out
        np.testing.assert_array_equal(got.numpy(), expected)
        np.testing.assert_array_equal(out, expected)


def test_parameters_have_any_name():
    def f(x, **params):
        total = x
        for value in params.values():
            total = total + value
        return {name: total * value for name, value in params.items()} | {"x": total}

    names = ["out", "x0", "self", "args", "inputs", "outputs", "name", "arrays", "a b", ""]
    params = {name: filled(i + 1) for i, name in enumerate(names)}
    got = lf.compile(f, X, params=params)(X)
    total = X + sum(params.values())
    for name, value in params.items():
        np.testing.assert_array_equal(got[name].numpy(), total * value)
    np.testing.assert_array_equal(got["x"].numpy(), total)


def test_numbered_arguments_keep_clear_of_others():
    def f(x1, *x, **rest):
        return x1 + 10 * x[0] + 100 * x[1] + 1000 * rest["x0"]

    program = lf.compile(f, X, X, X, params={"x0": X})
    np.testing.assert_array_equal(program(filled(1), filled(2), filled(3)).numpy(), filled(321) + 1000 * X)


def test_memory_of_one_name_is_said_apart():
    program = lf.compile(lambda x: {"x": x + 1}, X)
    x, y = X.copy(), np.zeros(3, "f4")
    program.bind({"x": x}, {"x": y})
    program.run()
    np.testing.assert_array_equal(y, [2, 3, 4])
    assert program.memory("x", "input").data_ptr == x.ctypes.data
    assert program.memory("x", "output").data_ptr == y.ctypes.data
    for call in (lambda: program.bind(x=x), lambda: program.memory("x")):
        with pytest.raises(lf.ArgumentError, match="x is an input and an output"):
            call()
    with pytest.raises(lf.ArgumentError, match="given twice"):
        lf.compile(lambda x: x + 1, X).bind({"x": x}, x=x)
    with pytest.raises(lf.ArgumentError, match="the key 1"):
        lf.compile(lambda x: {1: x + 1}, X)


def test_inputs_of_one_memory_are_read_and_not_written():
    y = np.array([1, 2, 3, 4], "f4")
    program = lf.compile(lambda a, b: a + b.flip(axis=0), y, y)
    program.bind(a=y, b=y)
    program.run()
    np.testing.assert_array_equal(program.memory("out").numpy(), [5, 5, 5, 5])
    np.testing.assert_array_equal(program(filled(9, 4), np.arange(1, 5, dtype="f4")).numpy(), [13, 12, 11, 10])
    np.testing.assert_array_equal(y, [1, 2, 3, 4])
    # What was bound is bound still.
    program.run()
    np.testing.assert_array_equal(program.memory("out").numpy(), [5, 5, 5, 5])
    halves = np.arange(6, dtype="f4")
    program.bind(a=halves[:4], b=halves[2:])
    np.testing.assert_array_equal(program(filled(0, 4), filled(1, 4)).numpy(), filled(1, 4))
    np.testing.assert_array_equal(halves, np.arange(6))


def test_a_call_leaves_parameters_as_they_are():
    w = np.ones(3, "f4")
    program = lf.compile(lambda x, w: x * w, X, params={"w": w})
    np.testing.assert_array_equal(program(X, w=filled(2)).numpy(), 2 * X)
    np.testing.assert_array_equal(w, np.ones(3))
    np.testing.assert_array_equal(program(X).numpy(), X)
    w[:] = 5
    np.testing.assert_array_equal(program(X).numpy(), 5 * X)
    np.testing.assert_array_equal(program(X, w=filled(3)).numpy(), 3 * X)
    assert program.memory("w").data_ptr == w.ctypes.data
    # Memory that must not be written is no obstacle.
    frozen = filled(4)
    frozen.flags.writeable = False
    program.bind(w=frozen)
    np.testing.assert_array_equal(program(X, w=filled(7)).numpy(), 7 * X)
    np.testing.assert_array_equal(program(X).numpy(), 4 * X)


def test_destinations_are_all_known_and_apart():
    program = lf.compile(lambda a: {"u": a + 1, "v": a * 2}, X)
    memory = np.zeros(8, "f4")
    for out, error, text in [
        ({"U": memory[:3]}, lf.ArgumentError, "'U', which is no output; the program has u, v"),
        ({"u": memory[:3], "v": memory[3:6], "w": memory[:3]}, lf.ArgumentError, "'w', which is no output"),
        ({"u": memory[:3]}, lf.ArgumentError, "out lacks the output v"),
        ((memory[:3],), lf.ArgumentError, "out has 1 arrays, the program has 2 outputs"),
        ((memory[:3], memory[:3]), lf.AliasError, "outputs 0 and 1 share memory"),
        ((memory[:3], memory[2:5]), lf.AliasError, "outputs 0 and 1 share memory"),
        ((memory[:3], memory[3:8]), lf.ShapeError, r"output \w+ is f32\[3\], the memory given is f32\[5\]"),
        ((memory[:3], np.zeros(3, "f8")), lf.DTypeError, r"output \w+ is f32\[3\], the memory given is f64"),
        ((memory[:3], np.broadcast_to(memory[3:4], 3)), lf.Error, "read-only|share memory"),
    ]:
        with pytest.raises(error, match=text):
            program(X, out=out)
        np.testing.assert_array_equal(memory, np.zeros(8))
    # Parts of one buffer that do not meet, also in turn.
    program(X, out={"v": memory[4:7], "u": memory[1:4]})
    np.testing.assert_array_equal(memory, [0, 2, 3, 4, 2, 4, 6, 0])


def test_destinations_may_be_arguments():
    program = lf.compile(lambda a, b: (a @ b, a), lf.spec((2, 2)), lf.spec((2, 2)))
    a, b = np.array([[1, 2], [3, 4]], "f4"), np.array([[5, 6], [7, 8]], "f4")
    want = a @ b
    program(a, b, out=(b, a))
    np.testing.assert_array_equal(b, want)
    bound = np.zeros((2, 2), "f4")
    program.bind(out0=bound)
    with pytest.raises(lf.AliasError, match="share memory"):
        program(a, b, out=(np.zeros((2, 2), "f4"), bound))
    other = np.zeros((2, 2), "f4")
    program(a, b, out=(bound, other))
    np.testing.assert_array_equal(bound, a @ b)


def test_names_of_torch_ops():
    torch = pytest.importorskip("torch")
    import landfall.torch as lt

    op = lt.op("landfall_names::all", lambda out, self, cotangent0: out * self + cotangent0, *[torch.ones(3)] * 3)
    args = [torch.tensor([1.0, 2, 3], requires_grad=True) for _ in range(3)]
    torch.testing.assert_close(op(*args), args[0] * args[1] + args[2])
    got = torch.autograd.grad(op(*args).sum(), args)
    torch.testing.assert_close(got, (args[1], args[0], torch.ones(3)))
    several = lt.op("landfall_names::several", lambda out0, *x: (out0 + x[0], out0 * x[0]), torch.ones(3), torch.ones(3))
    total, product = several(args[0].detach(), args[1].detach())
    torch.testing.assert_close((total, product), (2 * args[0].detach(), args[0].detach() ** 2))
