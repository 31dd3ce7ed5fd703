"""Traced functions: compiled, bound, differentiated, and refused with a reason."""

import pickle

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("f4")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def affine_softmax(x, weight, bias):
    return (x @ weight + bias).softmax(axis=-1)


def test_params_are_read_where_they_lie():
    x, weight, bias = normal(8, 4), normal(4, 3), normal(3)
    program = lf.compile(affine_softmax, x, params={"weight": weight, "bias": bias})
    assert program.inputs == {"x": ("float32", (8, 4)), "weight": ("float32", (4, 3)), "bias": ("float32", (3,))}
    np.testing.assert_allclose(program(x).numpy(), softmax(x @ weight + bias), rtol=1e-5)
    bias[:] = [1, 2, 3]
    np.testing.assert_allclose(program(x).numpy(), softmax(x @ weight + bias), rtol=1e-5)
    assert program.report()["instructions"] <= 3


def test_results_land_in_out_and_in_what_is_bound():
    x, weight, bias = normal(8, 4), normal(4, 3), normal(3)
    program = lf.compile(affine_softmax, x, params={"weight": weight, "bias": bias})
    out = np.zeros((8, 3), "f4")
    assert program(x, out=out) is out
    np.testing.assert_allclose(out, softmax(x @ weight + bias), rtol=1e-5)
    program.bind(x=x, out=out)
    x *= 2
    before = lf.counters()
    program.run()
    after = lf.counters()
    np.testing.assert_allclose(out, softmax(x @ weight + bias), rtol=1e-5)
    for counted in ("allocations", "host_transfers", "synchronizations"):
        assert after[counted] == before[counted], counted
    assert program.memory("out").data_ptr == out.ctypes.data
    with pytest.raises(lf.Error, match=r"binding .*overlap \(bytes "):
        program.bind(weight=out.reshape(-1)[:12].reshape(4, 3))


def test_values_have_the_operators_of_arrays():
    x = np.abs(normal(5, 6)) + 0.5

    def f(x):
        return {
            "a": 2.0 - x,
            "b": 1 / x,
            "c": x**2 + x**0.5 - abs(-x),
            "d": x[1:, ::2],
            "e": x[0],
            "f": x[..., None, -1],
            "g": x.T.reshape(-1, 3).permute(1, 0),
            "h": (x > 1.0).select(x, 0.0 * x),
            "i": lf.ops.maximum(x, 1.0),
            "j": lf.ops.add(x, x[0]),
            "k": x % 0.7,
            "l": 2.0**x,
            "m": x.sum(axes=(0, 1)),
            "n": x.max(axes=[-1]),
        }

    expected = {
        "a": 2 - x,
        "b": 1 / x,
        "c": x**2 + x**0.5 - abs(x),
        "d": x[1:, ::2],
        "e": x[0],
        "f": x[..., None, -1],
        "g": x.T.reshape(-1, 3).T,
        "h": np.where(x > 1, x, 0),
        "i": np.maximum(x, 1),
        "j": x + x[0],
        "k": x % np.float32(0.7),
        "l": 2**x,
        "m": x.sum(),
        "n": x.max(-1),
    }
    got = lf.compile(f, x)(x)
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert got[name].shape == value.shape, name
        np.testing.assert_allclose(got[name].numpy(), value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_gradients():
    x = normal(4, 5)

    def f(x):
        y = (x * x + 1.0).ln().sum()
        return (y, *y.gradients([x]))

    y, gradient = lf.compile(f, x)(x)
    np.testing.assert_allclose(y.item(), np.log(x * x + 1).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), 2 * x / (x * x + 1), rtol=1e-5, atol=1e-7)


def test_specs_and_dtypes():
    program = lf.compile(lambda x, index: lf.ops.gather(x, index, axis=0), lf.spec((5, 2)), lf.spec(3, "int64"))
    x, index = normal(5, 2), np.array([4, 0, 3])
    np.testing.assert_array_equal(program(x, index=index).numpy(), x[index])
    half = lf.compile(lambda x: x.cast("bfloat16") * 2, lf.spec(4))(np.ones(4, "f4"))
    assert half.dtype == "bfloat16" and half.tolist() == [2.0] * 4


@pytest.mark.parametrize(
    "function, error, text",
    [
        (lambda x: x @ x, lf.ShapeError, r"matmul\(f32\[8, 4\], f32\[8, 4\]"),
        (lambda x: 3, lf.ArgumentError, "it must return a value"),
        (lambda x: x.sofmax(), AttributeError, "'sofmax'|\"sofmax\""),
        (lambda x: x.softmax(axs=1), lf.ArgumentError, "it has axis"),
        (lambda x: x.softmax(axis=2), lf.ShapeError, "axis is 2, the rank is 2"),
        (lambda x: x if x.mean() > 0 else -x, lf.ArgumentError, "no contents: an if or a while"),
        (lambda x: float(x.mean()), lf.ArgumentError, "no contents"),
        (lambda x: lf.ops.exp(x, out=np.ones((8, 4), "f4")), lf.ArgumentError, "leave it out"),
        (lambda x, y: x, TypeError, "y"),
        (lambda x: x.dropout(1.0), lf.AttributeValueError, "below 1"),
        (lambda x: x[9], IndexError, "out of range of axis 0 of size 8"),
    ],
)
def test_what_a_function_cannot_do(function, error, text):
    with pytest.raises(error, match=text):
        lf.compile(function, normal(8, 4))


def test_what_a_call_cannot_do():
    x = normal(8, 4)
    program = lf.compile(lambda x: x.exp(), x)
    for call, error, text in [
        (lambda: program(x[:3]), lf.ShapeError, r"input \w+ is f32\[8, 4\], the memory given is f32\[3, 4\]"),
        (lambda: program(x.astype("f8")), lf.Error, r"f64\[8, 4\]"),
        (lambda: program(x, x), lf.ArgumentError, "2 arguments were given"),
        (lambda: program(z=x), lf.ArgumentError, "the program has no argument z; it has x"),
        (lambda: program(x, out=(x, x)), lf.ArgumentError, "out has 2 arrays, the program has 1 outputs"),
        (lambda: program.bind(z=x), lf.Error, "program has no output z"),
        (lambda: lf.compile(lambda x: x.exp(), lf.spec(3)).run(), lf.Error, "its input x was never written"),
        (lambda: pickle.dumps(program), lf.Error, "is not pickled"),
        (lambda: lf.compile(lambda x: x, x, device="cuda:77"), lf.DeviceError, "CUDA"),
    ]:
        with pytest.raises(error, match=text):
            call()
    # A failed call leaves the program usable.
    np.testing.assert_allclose(program(x).numpy(), np.exp(x), rtol=1e-6)


def test_numbers_are_arguments_without_axes():
    x = normal(8, 4)
    power = lf.compile(lambda x, scale, n: x * scale + n.cast("float32"), x, 0.5, 3)
    assert power.inputs["scale"] == ("float32", ()) and power.inputs["n"] == ("int64", ())
    np.testing.assert_array_equal(power(x, 2.0, 1).numpy(), x * np.float32(2) + 1)
    np.testing.assert_array_equal(power(x, scale=np.float32(3), n=-1).numpy(), x * np.float32(3) - 1)
    np.testing.assert_array_equal(power(x, 2, True).numpy(), x * np.float32(2) + 1)
    for args, error, text in [
        ((0.5, 1, 1), lf.ShapeError, r"x is the number 0.5; the program takes an array of the shape \(8, 4\)"),
        ((x, 1, 0.5), lf.DTypeError, "n is 0.5; the program takes int64 there"),
    ]:
        with pytest.raises(error, match=text):
            power(*args)
    scaled = lf.jit(lambda x, scale=1.0: x * scale)
    for number in (2.0, 3.0, 4.0):
        np.testing.assert_array_equal(scaled(x, number).numpy(), x * np.float32(number))
    assert len(scaled.programs) == 1


def test_values_of_two_functions_do_not_meet():
    kept = []
    lf.compile(lambda x: kept.append(x) or x.exp(), lf.spec(3))
    with pytest.raises(lf.ArgumentError, match="another traced function"):
        lf.compile(lambda x: x + kept[0], lf.spec(3))
    with pytest.raises(lf.ArgumentError, match="another traced function"):
        lf.compile(lambda x: kept[0], lf.spec(3))
