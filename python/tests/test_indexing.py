"""Indices that are arrays, of tensors and of values, against numpy; arrays beside values."""

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 3)).astype("f4")
ROWS, PAIRS = np.array([4, 0, -1, 2]), np.array([[0, -2], [3, 1]])
COLUMNS = np.array([1, -1, 0, 3])

KEYS = [
    (ROWS,),
    ([4, 0, -5],),
    (ROWS.astype("i4"),),
    (PAIRS,),
    (slice(None), PAIRS),
    (Ellipsis, np.array([2, 2, -3, 0])),
    (slice(1, 4), COLUMNS),
    (slice(None, None, 2), COLUMNS, None),
    (None, ROWS),
    (ROWS, 1),
    (1, COLUMNS),
    (0, slice(None), np.array([0, 2])),
    (ROWS, slice(None), -1),
    (ROWS, COLUMNS),
    (ROWS, COLUMNS, np.array([0, -1, 2, 1])),
    (PAIRS, np.array([3, -1])),
    (ROWS[:, None], COLUMNS[None, :]),
    (ROWS[:3], slice(None), np.array([0, 1, -1])),
    (slice(None), COLUMNS, np.array([0, 1, -1, 2])),
    (slice(None), np.array([0, 1]), None, np.array([2, -1])),
    (np.array([], dtype=np.int64),),
    (np.array(2),),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indices_are_numpys(key):
    key = key if len(key) > 1 else key[0]
    expected = X[key]
    got = lf.tensor(X)[key]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)
    traced = lf.compile(lambda x: x[key], X)(X)
    assert traced.shape == expected.shape
    np.testing.assert_array_equal(traced.numpy(), expected)
    # The same indices as values, known only when the program runs.
    places = (
        [i for i, item in enumerate(key) if isinstance(item, np.ndarray) and item.ndim]
        if isinstance(key, tuple)
        else []
    )

    def f(x, *indices):
        items = list(key)
        for place, index in zip(places, indices):
            items[place] = index
        return x[tuple(items)]

    if isinstance(key, np.ndarray):
        np.testing.assert_array_equal(lf.compile(lambda x, index: x[index], X, key)(X, key).numpy(), expected)
    elif places:
        indices = [key[place] for place in places]
        np.testing.assert_array_equal(lf.compile(f, X, *indices)(X, *indices).numpy(), expected)


def test_tensors_as_indices_and_a_table_beside_an_index():
    x = lf.tensor(X)
    np.testing.assert_array_equal(x[lf.tensor(ROWS)].numpy(), X[ROWS])
    np.testing.assert_array_equal(lf.compile(lambda i: x[i], ROWS)(ROWS).numpy(), X[ROWS])


def test_an_index_out_of_range_is_an_error():
    for index in ([5], [0, -6], np.array([[1, 9]])):
        with pytest.raises(lf.IndexOutOfRangeError, match="is out of range of axis 0 of size 5"):
            lf.tensor(X)[index]
        with pytest.raises(lf.IndexOutOfRangeError, match="is out of range of axis 0 of size 5"):
            lf.compile(lambda x, index=index: x[index], X)
    rows = lf.compile(lambda x, i: x[i], X, ROWS)
    pairs = lf.compile(lambda x, i, j: x[i, j], X, ROWS, ROWS)
    for wrong in (np.array([0, 5, 0, 0]), np.array([0, 0, 0, -6])):
        with pytest.raises(lf.IndexOutOfRangeError):
            rows(X, wrong).numpy()
        # In one number of both, 0 * 4 + 5 would be a place of another row.
        with pytest.raises(lf.IndexOutOfRangeError):
            pairs(X, np.zeros(4, "i8"), wrong).numpy()
    np.testing.assert_array_equal(pairs(X, ROWS, COLUMNS).numpy(), X[ROWS, COLUMNS])


@pytest.mark.parametrize(
    "key", [(ROWS,), (slice(None), PAIRS), (ROWS, COLUMNS), (1, COLUMNS), (ROWS, slice(None), -1)], ids=str
)
def test_gradients_are_added_where_an_index_repeats(key):
    repeated = tuple(np.where(item < 0, 0, item) if isinstance(item, np.ndarray) else item for item in key)
    cotangent = RNG.normal(size=X[repeated].shape).astype("f4")

    def f(x, c):
        return (x[repeated] * c).sum().gradients([x])[0]

    expected = np.zeros_like(X)
    np.add.at(expected, repeated, cotangent)
    got = lf.compile(f, X, cotangent)(X, cotangent).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_what_is_no_index():
    mask = X[:, 0, 0] > 0
    for call in (
        lambda: lf.tensor(X)[mask],
        lambda: lf.compile(lambda x: x[x[:, 0, 0] > 0], X),
        lambda: lf.compile(lambda x: x[mask], X),
    ):
        with pytest.raises(lf.ArgumentError, match=r"a mask, bool\[5\]: how many elements .* ops.where"):
            call()
    for index in ([0.5], np.array([1.0]), lf.tensor([1.0]), {}, b"a", ([0], "a")):
        with pytest.raises(lf.ArgumentError, match="it must be of integers"):
            lf.tensor(X)[index]
    with pytest.raises(lf.ArgumentError, match="no array of indices"):
        lf.tensor(X)[[[1], [1, 2]]]
    with pytest.raises(lf.IndexOutOfRangeError, match="names 4 axes"):
        lf.tensor(X)[ROWS, ROWS, ROWS, ROWS]
    with pytest.raises(lf.ArgumentError, match="neither an integer nor a slice"):
        lf.tensor(X)["a"]
    with pytest.raises(lf.ArgumentError, match="are not assigned"):
        lf.tensor(X)[ROWS] = 0


def test_arrays_stand_beside_values():
    x = np.abs(X[0]) + 0.5
    y = RNG.uniform(1, 2, size=(4, 3)).astype("f4")
    row = y[0]

    def f(x):
        return {
            "a": x + y, "b": y + x, "c": x * row, "d": row - x, "e": y / x, "f": x**y, "g": y**x, "h": y % x,
            "i": y.T @ x, "j": x @ y.T, "k": x > y, "l": y >= x, "m": (y > 1.5) & (x > 0), "n": x.maximum(y),
            "o": lf.ops.minimum(y, x), "p": x + [1, 2, 3], "q": [0.5, 1, 2] * x, "r": x + np.float32(2), "s": np.float64(2) * x,
            "t": lf.tensor(y) - x, "u": x.where(y > 1.5, 0), "v": lf.ops.where(y > 1.5, x, row), "w": x.concat(y, axis=0),
            "x": x.layer_norm(row, np.zeros(3, "f4")), "y": y // x,
        }  # fmt: skip

    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    expected = {
        "a": x + y, "b": y + x, "c": x * row, "d": row - x, "e": y / x, "f": x**y, "g": y**x, "h": y % x,
        "i": y.T @ x, "j": x @ y.T, "k": x > y, "l": y >= x, "m": (y > 1.5) & (x > 0), "n": np.maximum(x, y),
        "o": np.minimum(x, y), "p": x + np.array([1, 2, 3], "f4"), "q": np.array([0.5, 1, 2], "f4") * x, "r": x + 2, "s": 2 * x,
        "t": y - x, "u": np.where(y > 1.5, x, 0), "v": np.where(y > 1.5, x, row), "w": np.concatenate([x, y]),
        "x": normed * row, "y": y // x,
    }  # fmt: skip
    got = lf.compile(f, x)(x)
    for name, value in expected.items():
        assert got[name].shape == value.shape, name
        np.testing.assert_allclose(got[name].numpy(), value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_an_array_beside_a_value_is_what_it_was():
    shift = np.ones(3, "f4")
    program = lf.compile(lambda x: x + shift, np.zeros(3, "f4"))
    assert list(program.inputs) == ["x"]
    shift[:] = 7
    assert program(np.zeros(3, "f4")).tolist() == [1.0, 1.0, 1.0]
    exact = lf.compile(lambda x: x + np.array([2**53 + 1]), lf.spec(1, "int64"))
    assert exact(np.array([0])).tolist() == [2**53 + 1]


@pytest.mark.parametrize(
    "function, error, text",
    [
        (lambda x: x + np.ones(2, "f4"), lf.ShapeError, r"add\(f32\[3\], f32\[2\]\)"),
        (lambda x: x + np.ones(3), lf.DTypeError, "f64"),
        (lambda x: x + ["a"], TypeError, "unsupported operand"),
        (lambda x: x.cast("int64") + [0.5], lf.Error, "0.5"),
        (lambda x: x + np.ones(3, "c8"), lf.DTypeError, "complex64"),
    ],
)
def test_arrays_that_do_not_fit(function, error, text):
    with pytest.raises(error, match=text):
        lf.compile(function, np.zeros(3, "f4"))


def test_a_trainer_takes_arrays_beside_values():
    """Numbers of any dtype and indices, which are no samples, in a loss of batches."""
    table, order = np.arange(6, dtype="f4").reshape(3, 2), np.array([2, 0, 1])

    def loss(batch, params):
        picked = (batch["x"] @ table)[[1, 0]] * params["w"]
        return (picked.square().sum(axes=1) + batch["x"][:, order].square().sum(axes=1) * 0).mean()

    x, w = np.arange(12, dtype="f4").reshape(4, 3) / 12, np.array([1.0, -1.0], "f4")
    trainer = lf.Trainer(loss, {"w": w}, {"x": x}, batch=2, epochs=1, order="sequential", optimizer="sgd", lr=0.5, betas=(0.0, 0.0))
    trainer.step()
    gradient = (2 * (x[:2] @ table) ** 2 * w).mean(0)
    np.testing.assert_allclose(trainer.state_dict()["w"].numpy(), w - 0.5 * gradient, rtol=1e-6)
    trainer.replace({"x": x})


@pytest.mark.parametrize("axis", [-1, -2, -3, 0, 1, 2])
def test_negative_axes(axis):
    def f(x):
        return {
            "slice": x.slice(axis, 1, 2),
            "slice_step": x.slice_step(axis, 0, 2, 2),
            "concat": x.concat(x, axis=axis),
            "stack": x.stack(x, axis=axis),
            "squeeze": x.unsqueeze(axis).squeeze(axis),
            "flip": x.flip(axis),
            "roll": x.roll(1, axis),
            "transpose": x.transpose(axis, 0),
            "pad": x.pad(axis, 1, 0),
            "tile": x.tile(2, axis),
            "permute": x.permute(0, -1, 1),
        }

    rest = {-1: 2, -2: 1, -3: 0}.get(axis, axis)
    part = [slice(None)] * 3
    part[rest] = slice(1, 3)
    step = [slice(None)] * 3
    step[rest] = slice(0, 3, 2)
    ahead = [(0, 0)] * 3
    ahead[rest] = (1, 0)
    expected = {
        "slice": X[tuple(part)],
        "slice_step": X[tuple(step)],
        "concat": np.concatenate([X, X], axis),
        "stack": np.stack([X, X], axis),
        "squeeze": X,
        "flip": np.flip(X, axis),
        "roll": np.roll(X, 1, axis),
        "transpose": np.swapaxes(X, axis, 0),
        "pad": np.pad(X, ahead),
        "tile": np.concatenate([X, X], axis),
        "permute": X.transpose(0, 2, 1),
    }
    got = lf.compile(f, X)(X)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name].numpy(), value, err_msg=name)
    np.testing.assert_array_equal(lf.tensor(X).permute(0, -1, 1).numpy(), X.transpose(0, 2, 1))
