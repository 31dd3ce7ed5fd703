"""What a person who knows PyTorch or numpy writes with values: it works as there, or an error says what is meant."""

import inspect
import pydoc

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


X, Y = normal(2, 3, 4), normal(2, 3, 4)
POSITIVE = np.abs(X) + 0.5
M, V, W = normal(3, 4), normal(4), normal(3)
ONE = normal(2, 1, 3, 1)


def result(function, *args):
    return lf.compile(function, *args)(*args).numpy()


def same(function, expected, *args):
    got = result(function, *args)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def same_gradients(function, *args, step=1e-6):
    """Gradients of a sum of squares of the results are those of central differences."""

    def loss(*values):
        return (function(*values).square() * 0.5).sum() + function(*values).sum()

    program = lf.compile(lambda *values: tuple(loss(*values).gradients(list(values))), *args)
    value = lf.compile(loss, *args)
    for arg, gradient in zip(args, program(*args)):
        numeric = np.zeros_like(arg)
        for index in np.ndindex(arg.shape):
            ends = []
            for sign in (1, -1):
                moved = arg.copy()
                moved[index] += sign * step
                ends.append(float(value(*(moved if a is arg else a for a in args)).numpy()))
            numeric[index] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(gradient.numpy(), numeric, rtol=1e-5, atol=1e-6)


#: Functions of values, the same in numpy, and the arguments. Those that are differentiable come first.
SMOOTH = {
    "squeeze": (lambda x: x.squeeze(), ONE.squeeze(), [ONE]),
    "squeeze one": (lambda x: x.squeeze(-1), ONE.squeeze(-1), [ONE]),
    "squeeze two": (lambda x: x.squeeze(axis=(1, -1)), ONE.squeeze((1, -1)), [ONE]),
    "unsqueeze": (lambda x: x.unsqueeze(-1), X[..., None], [X]),
    "unsqueeze first": (lambda x: x.unsqueeze(axis=0), X[None], [X]),
    "unsqueeze inner": (lambda x: x.unsqueeze(-2), X[:, :, None], [X]),
    "stack": (lambda x, y: x.stack(y), np.stack([X, Y]), [X, Y]),
    "stack of a list": (lambda x, y: x.stack([y, x], axis=-1), np.stack([X, Y, X], -1), [X, Y]),
    "stack inner": (lambda x, y: x.stack(y, axis=-2), np.stack([X, Y], -2), [X, Y]),
    "concat of a list": (lambda x, y: x.concat([y], axis=-1), np.concatenate([X, Y], -1), [X, Y]),
    "concat by position": (lambda x, y: x.concat(y, -2), np.concatenate([X, Y], -2), [X, Y]),
    "transpose": (lambda x: x.transpose(0, -1), X.swapaxes(0, -1), [X]),
    "transpose the last": (lambda x: x.transpose(), X.swapaxes(-2, -1), [X]),
    "permute": (lambda x: x.permute(-1, 0, 1), X.transpose(-1, 0, 1), [X]),
    "permute by name": (lambda x: x.permute(axes=(2, 0, 1)), X.transpose(2, 0, 1), [X]),
    "reshape by name": (lambda x: x.reshape(shape=(6, -1)), X.reshape(6, -1), [X]),
    "reshape to nothing": (lambda x: x.sum().reshape(), X.sum(), [X]),
    "broadcast_to": (lambda v: v.broadcast_to(2, 4), np.broadcast_to(V, (2, 4)), [V]),
    "log": (lambda x: x.log(), np.log(POSITIVE), [POSITIVE]),
    "matrix @ vector": (lambda m, v: m @ v, M @ V, [M, V]),
    "vector @ matrix": (lambda w, m: w @ m, W @ M, [W, M]),
    "vector @ vector": (lambda v, w: v @ w, V @ V[::-1], [V, V[::-1].copy()]),
    "batch @ vector": (lambda x, v: x @ v, X @ V, [X, V]),
    "vector @ batch": (lambda w, x: w @ x, W @ X, [W, X]),
    "matmul of a vector": (lambda m, v: m.matmul(v), M @ V, [M, V]),
    "backwards": (lambda x: x[::-1], X[::-1], [X]),
    "backwards by two": (lambda x: x[:, :, 3:0:-2], X[:, :, 3:0:-2], [X]),
    "backwards and an index": (lambda x: x[1, ::-1, None, 1:], X[1, ::-1, None, 1:], [X]),
    "backwards to one": (lambda x: x[:, 1:0:-1], X[:, 1:0:-1], [X]),
    "where": (lambda x, y: x.where(x > y, y), np.where(X > Y, X, Y), [X, Y]),
    "where a number": (lambda x: x.where(x > 0.0, -1.5), np.where(X > 0, X, -1.5), [X]),
    "select a number": (lambda x: (x > 0.0).select(x, 0.25), np.where(X > 0, X, 0.25), [X]),
    "select a number first": (lambda x: (x > 0.0).select(0.25, x), np.where(X > 0, 0.25, X), [X]),
    "ops.where": (lambda x: lf.ops.where(x > 0.0, x, 2), np.where(X > 0, X, 2), [X]),
    "numpy float32": (lambda x: x * np.float32(2) + np.float32(1), X * 2 + 1, [X]),
    "numpy before": (lambda x: np.float64(2) * x - np.float64(1), 2 * X - 1, [X]),
    "numpy below": (lambda x: np.int64(2) / x, 2 / POSITIVE, [POSITIVE]),
    "array of no axes": (lambda x: np.array(2.0) * x + np.array(1), X * 2 + 1, [X]),
    "array of one element": (lambda x: x.sum() * np.array([2.0]), [X.sum() * 2], [X]),
    "array of three axes": (lambda v: v + np.array([[[2.0]]]), V + np.array([[[2.0]]]), [V]),
    "array in an op": (lambda x: lf.ops.add(x, np.array([[2.0]])), X + 2, [X]),
    "array in a method": (lambda x: x.maximum(np.array(0.1)), np.maximum(X, 0.1), [X]),
}
OTHERS = {
    "//": (lambda x: x // 0.75, X // 0.75, [X]),
    "// reflected": (lambda x: 3 // x, 3 // X, [X]),
    "// of values": (lambda x, y: x // y, X // Y, [X, Y]),
    "select of numbers": (lambda x: (x > 0.0).select(1.0, 0.0), np.where(X > 0, 1.0, 0.0), [X]),
    "ops.where of numbers": (lambda x: lf.ops.where(x > 0.0, 2, 3), np.where(X > 0, 2, 3), [X]),
    "fill": (lambda x: x + x.fill((4,), 2.0, dtype="float64"), X + 2, [X]),
    "// and %": (lambda x, y: (x // y) * y + x % y, X, [X, Y]),
    "cast to a class": (lambda x: x.cast(np.float64), X, [X]),
    "nothing backwards": (lambda x: x[:, 0:2:-1], X[:, 0:2:-1], [X]),
}


@pytest.mark.parametrize("name", [*SMOOTH, *OTHERS])
def test_values_are_those_of_numpy(name):
    function, expected, args = {**SMOOTH, **OTHERS}[name]
    same(function, expected, *args)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_differences(name):
    function, _, args = SMOOTH[name]
    same_gradients(function, *args)


def test_numbers_have_the_dtype_that_numpy_gives_them():
    def f(x):
        positive = x > 0.0
        assert positive.select(1.0, 0.0).dtype == "float32" and positive.select(1, 0).dtype == "int64"
        assert positive.select(x, 1).dtype == x.dtype == (x * np.array([2.0])).dtype == "float16"
        return x

    lf.compile(f, lf.spec(3, "float16"))


#: Each method that takes an axis, negative and from the front.
AXES = {
    "softmax": lambda x, axis: x.softmax(axis),
    "log_softmax": lambda x, axis: x.log_softmax(axis=axis),
    "sum": lambda x, axis: x.sum(axis),
    "sum, kept": lambda x, axis: x.sum((axis,), keep=True),
    "mean": lambda x, axis: x.mean(axes=axis),
    "variance": lambda x, axis: x.variance(axis),
    "norm": lambda x, axis: x.norm(axis),
    "logsumexp": lambda x, axis: x.logsumexp(axis),
    "cumsum": lambda x, axis: x.cumsum(axis),
    "slice": lambda x, axis: x.slice(axis, 1, 1),
    "slice_step": lambda x, axis: x.slice_step(axis, 0, 1, 2),
    "flip": lambda x, axis: x.flip(axis),
    "roll": lambda x, axis: x.roll(1, axis),
    "pad": lambda x, axis: x.pad(axis, 1),
    "tile": lambda x, axis: x.tile(2, axis),
    "concat": lambda x, axis: x.concat(x, axis=axis),
    "stack": lambda x, axis: x.stack(x, axis=axis if axis >= 0 else axis - 1),
    "unsqueeze": lambda x, axis: x.unsqueeze(axis if axis >= 0 else axis - 1),
    "transpose": lambda x, axis: x.transpose(axis, 0),
    "permute": lambda x, axis: x.permute(axis, *(a for a in range(3) if a != axis % 3)),
    "argmax": lambda x, axis: x.argmax(axis),
    "sort": lambda x, axis: x.sort(axis)[0],
    "largest": lambda x, axis: x.largest(2, axis)[0],
    "take": lambda x, axis: x.take(x.argmax(0).sum((0, 1)).reshape(1) * 0, axis),
    "ops.softmax": lambda x, axis: lf.ops.softmax(x, axis=axis),
    "ops.concat": lambda x, axis: lf.ops.concat(x, x, axis=axis),
}


@pytest.mark.parametrize("name", AXES)
def test_axes_count_from_the_end(name):
    for axis in range(3):
        front, back = (result(lambda x, axis=axis: AXES[name](x, axis), X) for axis in (axis, axis - 3))
        np.testing.assert_array_equal(front, back)
    for outside in (3, -4) if name not in ("stack", "unsqueeze") else (4, -4):
        with pytest.raises((lf.ShapeError, lf.AttributeValueError), match="axis is|rank"):
            result(lambda x, outside=outside: AXES[name](x, outside), X)


def refused(function):
    """The error of a function of a value `[2, 3, 4]`."""
    with pytest.raises(lf.Error) as caught:
        lf.compile(function, X)
    return str(caught.value)


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: x.softmax(dim=-1), "softmax takes axis, not dim"),
        (lambda x: x.softmax(axes=-1), "softmax takes axis, not axes"),
        (lambda x: x.sum(dim=0), "sum takes axes, not dim"),
        (lambda x: x.sum(axis=0), "sum takes axes, not axis"),
        (lambda x: x.mean(0, keepdims=True), "mean takes keep, not keepdims"),
        (lambda x: x.mean(0, keepdim=True), "mean takes keep, not keepdim"),
        (lambda x: x.permute(dims=(0, 1, 2)), "permute takes axes, not dims"),
        (lambda x: x.reshape(size=(24,)), "reshape takes shape, not size"),
        (lambda x: x.clamp(min=0.0), "clamp takes low, not min"),
        (lambda x: x.dropout(p=0.5), "dropout takes rate, not p"),
        (lambda x: x.unsqueeze(dim=0), "unsqueeze takes axis, not dim"),
        (lambda x: x.squeeze(dim=0), "squeeze takes axis, not dim"),
        (lambda x: x.stack(x, dim=0), "stack takes axis, not dim"),
        (lambda x: x.concat(x, dim=0), "concat takes axis, not dim"),
        (lambda x: x.cumsum(axsi=0), "cumsum takes axis, not axsi"),
        (lambda x: x.relu(inplace=True), 'relu has no keyword "inplace"; it has none'),
        (lambda x: lf.ops.softmax(x, dim=-1), "softmax takes axis, not dim"),
        (lambda x: lf.ops.sum(x, axis=0), "sum takes axes, not axis"),
    ],
)
def test_a_keyword_that_is_nearly_right_is_told_the_right_one(function, text):
    assert refused(function).startswith(text)


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: x.sum(0, 1), r"sum: axes takes several numbers as one tuple: axes=(0, 1)"),
        (lambda x: x.softmax((0, 1)), "axis is (0, 1); it must be an axis, one and no list"),
        (lambda x: x.softmax(0, 1), "softmax: 1 is one argument too many; it takes axis"),
        (lambda x: x.reshape(2.0, 12), "reshape: shape is (2.0, 12); it must be integers, one by one or as one tuple"),
        (lambda x: x.relu(0), "relu: 0 is one argument too many; it takes nothing"),
        (lambda x: x.maximum(), "maximum: rhs is missing; the method takes rhs"),
        (lambda x: x.maximum(["a"]), "maximum: rhs is a list; it must be a value, a number or an array"),
        (lambda x: x.maximum([x]), "maximum: rhs is a list; it must be a value, a number or an array"),
        (lambda x: np.asarray(x), "a value of a traced function has no contents: numpy cannot compute with it"),
        (lambda x: x.maximum(x, rhs=x), "maximum: rhs was given twice"),
        (lambda x: x.softmax(0, axis=0), "softmax: axis was given twice"),
        (lambda x: x.maximum(lhs=x), "maximum: lhs is the value whose method it is; it takes rhs"),
        (lambda x: x.unsqueeze(), "unsqueeze takes axis; axis is missing"),
        (lambda x: x.unsqueeze(0, 1), "unsqueeze takes axis; 2 arguments were given: (0, 1)"),
        (lambda x: x.unsqueeze((0, 1)), "unsqueeze: axis is (0, 1); it must be an axis, one integer"),
        (lambda x: x.squeeze(0), "squeeze(f64[2, 3, 4]): axis 0 has size 2; only an axis of size 1 can go"),
        (lambda x: x.stack(x[0]), "stack(f64[2, 3, 4], f64[3, 4]): the shapes must be equal"),
        (lambda x: x.stack(1.0), "stack: value 1 is a float; it must be a value"),
        (lambda x: x @ x[0, 0, :2], "matmul(f64[2, 3, 4], f64[2]): a row of the first has 4 elements"),
        (lambda x: x.argmax(0) // 2, "// ..: it is the floor of a division, which takes floats"),
        (lambda x: lf.ops.concat([x, x], axis=0), "concat takes its arrays one by one, not as a list: concat(*arrays)"),
        (
            lambda x: lf.ops.softmax(x, -1),
            "softmax takes 1 argument by position (x), got 2; axis is given by name: axis=-1",
        ),
        (lambda x: lf.ops.sum(x, 0, 1), "axes is given by name, several as one tuple: axes=(0, 1)"),
    ],
)
def test_a_wrong_number_of_arguments_is_told_what_is_meant(function, text):
    assert text in refused(function)


@pytest.mark.parametrize(
    "function, text",
    [
        (
            lambda x: x.maximum(len),
            "maximum: rhs is a builtin_function_or_method; it must be a value, a number or an array; call it",
        ),
        (lambda x: x + x.mean, "the operand of add is a Method; it must be a value, a number or an array; call it"),
        (lambda x: x.mean * x, "the operand of mul is a Method; it must be a value, a number or an array; call it"),
        (
            lambda x: lf.ops.add(x, lambda: x),
            "add: argument 1 is a function; it must be a value, a number or an array; call it",
        ),
        (lambda x: x.clamp(low=len), "it must be a number; call it"),
        (lambda x: x.clamp(low=x.sum()), "it must be a number; a value has no contents"),
        (lambda x: x.mean, "the function returned <method mean of a landfall.Value>"),
        (lambda x: x.mean, "call it, and return what it gives"),
        (lambda x: {"y": x.mean}, "call it, and return what it gives"),
        (lambda x: x.argmax(0) + float("nan"), "the operand of add is NaN beside an array of int64"),
        (lambda x: x.argmax(0).maximum(float("inf")), "maximum: rhs is inf beside an array of int64"),
        (lambda x: lf.ops.maximum(x.argmax(0), float("inf")), "maximum: rhs is inf beside an array of int64"),
        (lambda x: x.dropout(float("nan")), "dropout: rate is nan; it must be a number from 0 and below 1"),
    ],
)
def test_functions_and_numbers_that_do_not_fit_are_named(function, text):
    assert text in refused(function)


def test_functions_in_place_of_arrays_and_options():
    params, data = {"w": np.ones(3, "f4")}, {"x": np.ones((8, 3), "f4")}

    def loss(batch, params):
        return (batch["x"] * params["w"]).mean()

    for call, text in [
        (lambda: lf.Trainer(loss, params, data, lr=len), "lr is <built-in function len>.*call it"),
        (lambda: lf.Trainer(loss, params, data, lr=float("nan")), "lr is nan"),
        (lambda: lf.Trainer(loss, params, data, betas=[0.9, float("inf")]), "betas? .*inf"),
        (lambda: lf.Trainer(loss, params, data, schedule=["x", float("nan")]), "schedule is .*nan"),
        (lambda: lf.Trainer(loss, {"w": len}, data), "w is <built-in function len>, a function"),
        (lambda: lf.Trainer(1.0, params, data), "loss is a float; it must be a function"),
        (lambda: lf.Trainer(lambda batch, params: params["w"].mean, params, data), "the loss is .*call it"),
        (lambda: lf.compile(loss, len), "batch is <built-in function len>, a function"),
        (lambda: lf.compile(data["x"], data["x"]), "a function comes first, before its arguments; ndarray is none"),
        (lambda: lf.ops.softmax(len), "builtin_function_or_method; .*call it"),
    ]:
        with pytest.raises(lf.Error, match=text):
            call()


@pytest.mark.parametrize(
    "name, text",
    [
        ("view", "it has reshape"),
        ("var", "it has variance"),
        ("topk", "it has largest"),
        ("item", "no contents"),
        ("softmaxx", "it has softmax"),
        ("zzz", "dir"),
    ],
)
def test_a_missing_method_is_told_the_one_that_is_there(name, text):
    def f(x):
        with pytest.raises(AttributeError, match=text):
            getattr(x, name)
        assert not hasattr(x, name)
        return x

    lf.compile(f, X)


METHODS = sorted(name for name, made in vars(lf.Value).items() if type(made).__name__ == "ValueMethod")


def test_the_methods_of_the_table_are_attributes_of_the_class():
    assert len(METHODS) > 80 and {"softmax", "sum", "concat", "reshape", "log"} <= {*METHODS}
    assert {*METHODS} <= {*dir(lf.Value)}


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_help(name):
    method = getattr(lf.Value, name)
    signature = inspect.signature(method)
    text = pydoc.render_doc(method, renderer=pydoc.plaintext)
    assert f"{name}{signature}" in text
    for parameter in [*signature.parameters][1:]:
        assert f"        {parameter}: " in text
    assert "```" not in text and "crate::" not in text and "[`" not in text
    assert method.__qualname__ == f"Value.{name}"


def test_help_says_the_axes():
    text = pydoc.render_doc(lf.Value.softmax, renderer=pydoc.plaintext)
    for part in [
        "softmax(self, /, axis=-1)",
        "x: the value itself",
        "axis: an axis, negative from the end, by default -1",
    ]:
        assert part in text
    assert "axes: an axis or several, negative from the end, by default all" in lf.Value.sum.__doc__
    for name in ("squeeze", "unsqueeze", "stack", "transpose", "where", "dropout"):
        assert inspect.signature(getattr(lf.Value, name)).parameters.keys() - {"self"}
        assert len(getattr(lf.Value, name).__doc__) > 30

    def f(x):
        assert inspect.signature(x.softmax).parameters.keys() == {"axis"}
        assert x.softmax.__doc__ == lf.Value.softmax.__doc__ and x.softmax.__self__.shape == x.shape
        return lf.Value.softmax(x, axis=0)

    e = np.exp(X)
    same(f, e / e.sum(0), X)
    with pytest.raises(lf.ArgumentError, match="takes a value of a traced function first"):
        lf.Value.softmax(X)


def test_methods_that_give_two_values_are_known_to_the_stubs():
    def f(x):
        assert [type(pair) for pair in (x.sort(), x.largest(1))] == [tuple, tuple]
        return x

    lf.compile(f, X)


@pytest.mark.parametrize(
    "get, texts",
    [
        (lambda x: lf.relu, ["module 'landfall' has no attribute 'relu'", "landfall.ops.relu", "landfall.jit(lambda x: x.relu(..))"]),
        (lambda x: lf.cat, ["landfall.ops.concat", "x.concat(..)"]),
        (lambda x: lf.argmax, ["landfall.jit(lambda x: x.argmax(..))"]),
        (lambda x: lf.einsum, ["write it with permute, reshape and matmul"]),
        (lambda x: lf.nonsense, ["module 'landfall' has no attribute 'nonsense'"]),
        (lambda x: x.chunk, ["a landfall.Tensor has no \"chunk\"", "slices, such as x[:, :8]"]),
        (lambda x: x.float, ["a landfall.Tensor has no \"float\"", "landfall.ops.cast", "x.cast(dtype=\"float32\")"]),
        (lambda x: x.softmax, ["landfall.ops.softmax"]),
    ],
)
def test_a_name_that_is_not_there_is_told_where_it_is(get, texts):
    with pytest.raises(AttributeError) as raised:
        get(lf.zeros((2, 2)))
    assert all(text in str(raised.value) for text in texts), str(raised.value)
    # What libraries ask an object for is answered in few words.
    assert not hasattr(lf.zeros(2), "__array_interface__")
