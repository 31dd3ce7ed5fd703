"""Training of functions: exact against numpy, resumable, refused with a reason."""

import threading

import numpy as np
import pytest

import landfall as lf


def data(rows=256):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4)).astype("f4")
    return x, x @ np.array([[1.0], [2], [3], [4]], "f4") + np.float32(0.5)


def loss(batch, params):
    return ((batch["x"] @ params["weight"] + params["bias"] - batch["y"]) ** 2).mean()


def start():
    return {"weight": np.zeros((4, 1), "f4"), "bias": np.zeros(1, "f4")}


def test_it_learns():
    x, y = data()
    trainer = lf.Trainer(loss, start(), {"x": x, "y": y}, batch=32, epochs=40, lr=0.05)
    seen = []
    losses = trainer.fit(seen.append, every=100)
    assert trainer.position == trainer.steps == len(losses) == 320
    assert losses[0] > 10 and losses[-1] < 1e-6 and [r["step"] for r in seen] == [100, 200, 300, 320]
    state = trainer.state_dict()
    np.testing.assert_allclose(state["weight"].numpy().ravel(), [1, 2, 3, 4], atol=1e-3)
    # The trained parameters in a program of their own.
    program = lf.compile(lambda x, weight, bias: x @ weight + bias, x, params=state)
    np.testing.assert_allclose(program(x).numpy(), y, atol=1e-2)


def test_steps_equal_numpy():
    x, y = data(64)
    trainer = lf.Trainer(
        loss,
        start(),
        {"x": x, "y": y},
        batch=64,
        epochs=5,
        lr=0.1,
        optimizer="sgd",
        betas=(0.0, 0.0),
        order="sequential",
    )
    weight, bias = np.zeros((4, 1)), np.zeros(1)
    for step in range(5):
        error = x @ weight + bias - y
        trainer.step()
        (record,) = trainer.records(step + 1, step + 1)
        np.testing.assert_allclose(record["loss"], (error**2).mean(), rtol=1e-5)
        weight -= 0.1 * 2 * x.T @ error / 64
        bias -= 0.1 * 2 * error.mean()
    state = trainer.state_dict()
    np.testing.assert_allclose(state["weight"].numpy(), weight, rtol=1e-5)
    np.testing.assert_allclose(state["bias"].numpy(), bias, rtol=1e-5)


def test_an_average_of_the_parameters_is_kept():
    x, y = data(64)

    def trained(**more):
        return lf.Trainer(loss, start(), {"x": x, "y": y}, batch=64, epochs=6, lr=0.1, order="sequential", **more)

    trainer = trained(average=0.75)
    expected = start()
    for _ in range(trainer.steps):
        trainer.step()
        for name, value in trainer.state_dict().items():
            expected[name] = 0.75 * expected[name] + 0.25 * value.numpy()
    for name, value in trainer.state_dict(average=True).items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-5)
    with pytest.raises(lf.Error, match="average"):
        trained().state_dict(average=True)


@pytest.mark.parametrize("load", [False, True])
def test_an_average_begins_as_the_weights(load):
    x, y = data(64)
    rng = np.random.default_rng(2)
    weights = {"weight": rng.normal(size=(4, 1)).astype("f4"), "bias": rng.normal(size=1).astype("f4")}
    given = start() if load else weights
    trainer = lf.Trainer(loss, given, {"x": x, "y": y}, batch=64, epochs=4, lr=0.1, average=0.75)
    if load:
        trainer.step(2)
        trainer.load_state_dict(weights)
    expected = {name: value.copy() for name, value in weights.items()}
    for name, value in trainer.state_dict(average=True).items():
        np.testing.assert_array_equal(value.numpy(), expected[name])
    trainer.step()
    for name, value in trainer.state_dict().items():
        expected[name] = 0.75 * expected[name] + 0.25 * value.numpy()
    for name, value in trainer.state_dict(average=True).items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-5)


def test_weights_that_do_not_fit_change_nothing():
    x, y = data(64)
    trainer = lf.Trainer(loss, start(), {"x": x, "y": y}, batch=64)
    with pytest.raises(lf.Error, match=r"parameter bias.*\[1\]"):
        trainer.load_state_dict({"weight": np.ones((4, 1), "f4"), "bias": np.ones(2, "f4")})
    assert (trainer.state_dict()["weight"].numpy() == 0).all()


def test_records_are_those_of_steps_that_ran():
    x, y = data()
    trainer = lf.Trainer(loss, start(), {"x": x, "y": y}, batch=32, epochs=200)
    trainer.step(3)
    assert [r["step"] for r in trainer.records(0, 9)] == [1, 2, 3]
    trainer.step(1100)
    assert [r["step"] for r in trainer.records(1, 100)] == list(range(80, 101))


def test_half_precision_scales_the_loss_down():
    # The first loss scale overflows, step by step: that is no end of the training.
    x, y = data(64)
    trainer = lf.Trainer(loss, start(), {"x": x, "y": 1000 * y}, batch=64, epochs=3, dtype="f16", lr=1e-3)
    assert len(trainer.fit(every=1)) == 3


def test_a_saved_trainer_goes_on(tmp_path):
    x, y = data()

    def new():
        return lf.Trainer(loss, start(), {"x": x, "y": y}, batch=32, epochs=4, lr=0.05)

    whole, first, second = new(), new(), new()
    expected = whole.fit()
    first.step(13)
    first.save(tmp_path / "state.safetensors")
    second.load(tmp_path / "state.safetensors")
    assert second.position == 13
    assert second.fit() == expected[13:]
    second.load_state_dict(start())
    assert second.state_dict()["weight"].numpy().sum() == 0


def filling(number, rows=32):
    rng = np.random.default_rng(number)
    x = rng.normal(size=(rows, 4)).astype("f4")
    return {"x": x, "y": x @ np.array([[1.0], [2], [3], [4]], "f4") + np.float32(0.5)}


def streaming(**more):
    """A trainer of whole fillings, so that what a step sees is known."""
    return lf.Trainer(loss, start(), filling(0), batch=32, lr=0.05, order="sequential", **{"max_steps": 22, **more})


def test_replaced_samples_are_those_of_the_steps_after():
    trainer, expected = streaming(), []
    zeros = {name: np.zeros_like(array) for name, array in filling(0).items()}
    for number in range(4):
        trainer.replace(filling(number))
        params = {name: value.numpy() for name, value in trainer.state_dict().items()}
        data = filling(number)
        expected.append(((data["x"] @ params["weight"] + params["bias"] - data["y"]) ** 2).mean())
        trainer.step()
    np.testing.assert_allclose([r["loss"] for r in trainer.records(1, 4)], expected, rtol=1e-5)
    # What is not as the first samples were changes nothing.
    for data, text in [
        ({"x": zeros["x"]}, "y"),
        ({**zeros, "z": zeros["x"]}, "z"),
        ({name: array[:9] for name, array in zeros.items()}, r"array x.*\[9, 4\]"),
        ({**zeros, "x": zeros["x"].astype("f8")}, "f64"),
        ([zeros["x"]], "data is a list; it must be a dictionary of arrays"),
    ]:
        with pytest.raises(lf.Error, match=text):
            trainer.replace(data)
    trainer.step()
    data = filling(3)
    assert trainer.records(5, 5)[0]["loss"] > 0
    params = {name: value.numpy() for name, value in trainer.state_dict().items()}
    trainer.step()
    found = trainer.records(6, 6)[0]["loss"]
    np.testing.assert_allclose(found, ((data["x"] @ params["weight"] + params["bias"] - data["y"]) ** 2).mean(), rtol=1e-5)


def test_a_generator_feeds_a_training(tmp_path):
    taken = []

    def stream(first=0, most=100):
        for number in range(first, most):
            taken.append((number, threading.current_thread() is threading.main_thread()))
            yield filling(number)

    by_hand, expected = streaming(), []
    for number in range(6):
        by_hand.replace(filling(number))
        done = by_hand.position
        by_hand.step(min(4, 22 - done))
        expected += [record["loss"] for record in by_hand.records(done + 1, by_hand.position)]
    trainer, seen = streaming(), []
    assert trainer.fit(seen.append, every=10, data=stream(), steps=4) == expected
    assert [record["step"] for record in seen] == [10, 20, 22]
    # No item is made that no step sees, and none on the thread that trains.
    assert taken == [(number, False) for number in range(6)]
    # Interrupted within an item, and continued.
    first, second = streaming(), streaming()
    first.fit(data=stream(most=3), steps=4)
    assert first.position == 12
    first.replace(filling(3))
    first.step(2)
    first.save(tmp_path / "state.safetensors")
    second.load(tmp_path / "state.safetensors")
    assert second.fit(data=stream(second.position // 4), steps=4) == expected[14:]
    assert second.fit(data=stream(), steps=4) == []


def test_what_a_generator_does_wrong_is_said():
    def broken():
        yield filling(0)
        raise OSError("no more disk")

    for data, steps, error, text in [
        (broken(), 4, OSError, "no more disk"),
        (iter([]), 4, lf.ArgumentError, "data has no item"),
        (iter([None]), 4, lf.ArgumentError, "data is a NoneType; it must be a dictionary of arrays"),
        (filling(0), 4, lf.ArgumentError, "data is a str; it must be a dictionary of arrays"),
        (7, 4, lf.ArgumentError, "data is a int; it must be a generator"),
        (broken(), 0, lf.InvalidValueError, "steps 0: give a whole number"),
        (broken(), None, lf.ArgumentError, "data and steps belong together"),
        (None, 4, lf.ArgumentError, "data and steps belong together"),
    ]:
        with pytest.raises(error, match=text):
            streaming().fit(data=data, steps=steps)


def test_dropout_is_for_training_alone():
    x = np.ones((64, 128), "f4")

    def dropped(batch, params):
        return (batch["x"] * params["scale"]).dropout(0.5).mean()

    trainer = lf.Trainer(dropped, {"scale": np.ones(128, "f4")}, {"x": x}, batch=64, lr=0.0, epochs=3)
    losses = trainer.fit()
    assert len(set(losses)) == 3 and all(0.9 < value < 1.1 for value in losses)
    assert (lf.compile(lambda x: x.dropout(0.5), x)(x).numpy() == 1).all()


def test_what_is_refused():
    x, y = data()
    for make, error, text in [
        (lambda: lf.Trainer(loss, start(), {"x": x, "y": y}, bach=3), lf.ArgumentError, "no option 'bach'"),
        (lambda: lf.Trainer(loss, start(), {"x": x, "y": y}, lr="much"), lf.ArgumentError, 'lr is "much": invalid type'),
        (
            lambda: lf.Trainer(loss, [x], {"x": x}),
            lf.ArgumentError,
            "params is a list; it must be a dictionary of arrays",
        ),
        (
            lambda: lf.Trainer(loss, start(), {"x": x, "y": y}).fit(every=0),
            lf.InvalidValueError,
            "every 0: give a whole",
        ),
        (lambda: lf.Trainer(loss, start(), {}), lf.ArgumentError, "data is empty"),
        (lambda: lf.Trainer(loss, start(), {"x": x, "y": y}, betas=(0.9, 0.99, 0.999)), lf.ArgumentError, "there are two"),
        (lambda: lf.Trainer(loss, start(), {"x": x, "y": y}, betas=(0.9,)), lf.ArgumentError, "there are two"),
        (lambda: lf.Trainer(loss, start(), {"x": x, "y": y[:9]}), lf.Error, r"\[9, 1\]|\[256, 1\]"),
        (lambda: lf.Trainer(loss, start(), {"x": x, "weight": y}), lf.ArgumentError, "another name"),
        (lambda: lf.Trainer(lambda b, p: b["x"], start(), {"x": x}), lf.ArgumentError, "without axes"),
        (lambda: lf.Trainer(lambda b, p: b["x"].mean(), start(), {"x": x}), lf.Error, "no gradient path"),
        (lambda: lf.Trainer(loss, {"weight": np.zeros((4, 1), "i8")}, {"x": x, "y": y}), lf.Error, "i64"),
    ]:
        with pytest.raises(error, match=text):
            make()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("batch", 0),
        ("batch", -1),
        ("accumulate", 0),
        ("epochs", 0),
        ("max_steps", 0),
        ("max_steps", 1.5),
        ("lr", -1.0),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("average", 2.0),
        ("average", 1.0),
        ("average", -0.1),
        ("betas", (1.0, 0.9)),
        ("betas", (0.9, -0.1)),
        ("betas", (0.9, float("nan"))),
        ("weight_decay", -0.1),
        ("weight_decay", float("inf")),
        ("clip", 0.0),
        ("clip", -1.0),
        ("seed", -1),
        ("dtype", "int32"),
        ("optimizer", "newton"),
        ("schedule", "sometimes"),
    ],
)
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "lion"])
def test_options_outside_of_their_range_are_refused_by_name(option, value, optimizer):
    x, y = data(32)
    options = {"optimizer": optimizer, option: value}
    with pytest.raises(lf.Error, match=option):
        lf.Trainer(loss, start(), {"x": x, "y": y}, **options)


def test_a_loss_that_is_not_finite_ends_the_training():
    x, y = data(32)
    x[3] = np.nan
    trainer = lf.Trainer(loss, start(), {"x": x, "y": y}, batch=32, epochs=2)
    with pytest.raises(lf.NonFiniteError, match="NaN"):
        trainer.fit()
    assert trainer.records(1, 2) == []
    assert (trainer.state_dict()["weight"].numpy() == 0).all()


def test_files(tmp_path):
    given = {"a": np.arange(6, dtype="i8").reshape(2, 3) + 2**60, "b": np.float32([1.5]), "c": lf.tensor([True, False])}
    lf.save(tmp_path / "t.safetensors", given)
    read = lf.load(tmp_path / "t.safetensors")
    assert (
        (read["a"].numpy() == given["a"]).all() and read["b"].tolist() == [1.5] and read["c"].tolist() == [True, False]
    )
    with pytest.raises(lf.Error, match="missing.safetensors"):
        lf.load(tmp_path / "missing.safetensors")
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "t.safetensors").read_bytes()[:40])
    with pytest.raises(lf.Error, match="half.safetensors"):
        lf.load(tmp_path / "half.safetensors")
