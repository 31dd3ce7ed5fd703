"""Optimizers in traced functions and trainers: against formulas and PyTorch, on arrays of the caller's, refused with a reason."""

import numpy as np
import pytest

import landfall as lf
from landfall.optim import Adam, AdamW, Lion, Minimiser, Optimizer, Sgd

STEPS = 50
#: Measured over the 50 steps: 9e-15 of float64, 7e-6 of float32.
ROUNDING = {"f8": {"rtol": 1e-13, "atol": 1e-14}, "f4": {"rtol": 5e-5, "atol": 5e-6}}


def weights(dtype="f8"):
    rng = np.random.default_rng(0)
    shapes = {
        "body.weight": (4, 6),
        "body.bias": (6,),
        "head.weight": (6, 2),
        "head.bias": (2,),
        "multihead.weight": (2, 2),
    }
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def samples(dtype="f8"):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(STEPS, 8, 4)).astype(dtype)
    return x, np.stack([x.sum(axis=2), x.max(axis=2)], axis=2)


def loss_of(x, y, w):
    hidden = (x @ w["body.weight"] + w["body.bias"]).tanh()
    out = (hidden @ w["head.weight"] + w["head.bias"]) @ w["multihead.weight"]
    return ((out - y) ** 2).mean()


def trained(params, minimiser, steps=STEPS):
    """Runs a program of one step; the loss of each."""
    x, y = samples(params["body.weight"].dtype)

    def step(x, y, **w):
        loss = loss_of(x, y, w)
        minimiser.minimise(loss, w)
        return loss

    program = lf.compile(step, x[0], y[0], params=params)
    return [float(program(x[i], y[i]).numpy()) for i in range(steps)]


class TorchLion:
    """Lion by its formula, on tensors of torch."""

    def __init__(self, groups, betas):
        self.param_groups, self.betas, self.means = groups, betas, {}

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.means.setdefault(p, p.detach() * 0)
                first, second = self.betas
                update = (first * m + (1 - first) * p.grad).sign() + group["weight_decay"] * p.detach()
                p.data -= group["lr"] * update
                m.mul_(second).add_((1 - second) * p.grad)


OPTIMIZERS = {
    "adam": (lambda: Adam(betas=(0.8, 0.95)), lambda t, g: t.optim.Adam(g, betas=(0.8, 0.95))),
    "adamw": (lambda: AdamW(eps=1e-6), lambda t, g: t.optim.AdamW(g, eps=1e-6)),
    "sgd": (lambda: Sgd(), lambda t, g: t.optim.SGD(g)),
    "momentum": (lambda: Sgd(momentum=0.9), lambda t, g: t.optim.SGD(g, momentum=0.9)),
    "nesterov": (lambda: Sgd(momentum=0.9, nesterov=True), lambda t, g: t.optim.SGD(g, momentum=0.9, nesterov=True)),
    "lion": (lambda: Lion(betas=(0.9, 0.98)), lambda t, g: TorchLion(g, (0.9, 0.98))),
}


def rate(step):
    return 0.02 * 0.97**step


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_torch(name, dtype):
    torch = pytest.importorskip("torch")
    own, theirs = OPTIMIZERS[name]
    params = weights(dtype)
    start = {key: value.copy() for key, value in params.items()}
    minimiser = Minimiser(
        params,
        own(),
        weight_decay=0.1,
        groups={"head": {"lr_factor": 3.0, "weight_decay": 0.2}},
        freeze=["body.bias"],
        clip=1.5,
        schedule=rate,
        steps=STEPS,
    )
    losses = trained(params, minimiser)

    tensors = {key: torch.tensor(value, requires_grad=key != "body.bias") for key, value in start.items()}
    head = [tensors["head.weight"], tensors["head.bias"]]
    groups = [
        {
            "params": [tensors["body.weight"], tensors["multihead.weight"]],
            "weight_decay": 0.1,
            "factor": 1.0,
            "lr": 0.0,
        },
        {"params": head, "weight_decay": 0.2, "factor": 3.0, "lr": 0.0},
    ]
    optimizer = theirs(torch, groups)
    x, y = samples(dtype)
    for step in range(STEPS):
        for tensor in tensors.values():
            tensor.grad = None
        loss = loss_of(torch.tensor(x[step]), torch.tensor(y[step]), tensors)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.5)
        for group in optimizer.param_groups:
            group["lr"] = rate(step) * group["factor"]
        optimizer.step()
        np.testing.assert_allclose(losses[step], loss.item(), **ROUNDING[dtype])
    for key, tensor in tensors.items():
        np.testing.assert_allclose(params[key], tensor.detach().numpy(), **ROUNDING[dtype])
    assert (params["body.bias"] == start["body.bias"]).all()
    assert minimiser.position == STEPS


def heavy_ball(u):
    velocity = 0.9 * u.moments[0] + u.gradient + u.weight_decay * u.parameter
    return u.parameter - u.rate * velocity, velocity


def adam_by_hand(u):
    first = 0.9 * u.moments[0] + 0.1 * u.gradient
    second = 0.999 * u.moments[1] + 0.001 * u.gradient**2
    corrected = (first / (1 - 0.9**u.step), second / (1 - 0.999**u.step))
    return u.parameter - u.rate * corrected[0] / (corrected[1].sqrt() + 1e-8), first, second


@pytest.mark.parametrize(
    ("own", "same", "decay"),
    [
        (Optimizer(heavy_ball, moments=1), Sgd(momentum=0.9), 0.1),
        (Optimizer(adam_by_hand, moments=2), Adam(), 0.0),
        (Optimizer(lambda u: u.parameter - u.rate * (u.gradient + u.weight_decay * u.parameter)), Sgd(), 0.1),
    ],
    ids=["heavy ball", "adam", "plain"],
)
def test_an_optimizer_of_ones_own(own, same, decay):
    options = {"lr": 0.01, "weight_decay": decay, "clip": 2.0, "groups": {"head": {"lr_factor": 2.0}}}
    first, second = weights(), weights()
    np.testing.assert_allclose(
        trained(first, Minimiser(first, own, **options)), trained(second, Minimiser(second, same, **options)), rtol=1e-9
    )
    # In a trainer, which has its parameters in groups.
    x, y = samples()

    def trainer(optimizer):
        made = lf.Trainer(
            lambda batch, w: loss_of(batch["x"], batch["y"], w),
            weights(),
            {"x": x[:, 0], "y": y[:, 0]},
            batch=10,
            dtype="f64",
            optimizer=optimizer,
            **options,
        )
        return made.fit(), made.state_dict()

    (losses, state), (expected, other) = trainer(own), trainer(same)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    for name, value in state.items():
        np.testing.assert_allclose(value.numpy(), other[name].numpy(), rtol=1e-9)


def test_a_trainer_freezes_groups_and_follows_a_function():
    x, y = samples()
    start = weights()
    trainer = lf.Trainer(
        lambda batch, w: loss_of(batch["x"], batch["y"], w),
        start,
        {"x": x[:, 0], "y": y[:, 0]},
        batch=10,
        epochs=2,
        dtype="f64",
        optimizer=Sgd(),
        groups={"body": {"lr_factor": 0.0}},
        freeze=["head."],
        schedule=lambda step: 0.1 / (step + 1),
    )
    trainer.fit()
    assert [record["lr"] for record in trainer.records(1, 3)] == [0.1, 0.05, 0.1 / 3]
    state = {name: value.numpy() for name, value in trainer.state_dict().items()}
    assert {name for name in start if (state[name] != start[name]).any()} == {"multihead.weight"}
    changed = {name: value + 1 for name, value in start.items()}
    trainer.load_state_dict(changed)
    assert (trainer.state_dict()["head.bias"].numpy() == changed["head.bias"]).all()


def test_programs_share_arrays_and_optimizers():
    w = {"w": np.array([4.0, 8.0])}
    plain, heavy = Minimiser(w, Sgd(), lr=0.5), Minimiser(w, Sgd(momentum=0.5), lr=0.5)

    def step(minimiser):
        def function(w):
            loss = 0.5 * (w * w).sum()
            minimiser.minimise(loss, {"w": w})
            return loss

        return lf.compile(function, params=w)

    first, second, again = step(plain), step(heavy), step(heavy)
    read = lf.compile(lambda w: w * 1.0, params=w)
    assert first().item() == 40.0 and w["w"].tolist() == [2.0, 4.0] and read().tolist() == [2.0, 4.0]
    assert second().item() == 10.0 and w["w"].tolist() == [1.0, 2.0]
    again()  # the sum of gradients is that of `second`
    assert w["w"].tolist() == [0.0, 0.0] and (plain.position, heavy.position) == (1, 2)
    assert heavy.state_dict()["momentum_buffer.w"].tolist() == [2.0, 4.0]
    before = lf.counters()
    for _ in range(10):
        first.run()
    after = lf.counters()
    assert after["allocations"] == before["allocations"] and plain.position == 11


def test_a_state_goes_on_where_it_was_saved(tmp_path):
    params, other = weights(), weights()
    minimiser = Minimiser(params, AdamW(), lr=0.01, weight_decay=0.1)
    assert sorted(minimiser.state_dict())[:2] == ["exp_avg.body.bias", "exp_avg.body.weight"]
    trained(params, minimiser, 5)
    lf.save(tmp_path / "optimizer.safetensors", minimiser.state_dict())
    lf.save(tmp_path / "weights.safetensors", params)
    expected = trained(params, minimiser, 5)
    resumed = Minimiser(other, AdamW(), lr=0.01, weight_decay=0.1)
    resumed.load_state_dict(lf.load(tmp_path / "optimizer.safetensors"))
    for name, value in lf.load(tmp_path / "weights.safetensors").items():
        other[name][...] = value.numpy()
    assert resumed.position == 5 and trained(other, resumed, 5) == expected
    state = resumed.state_dict()
    for wrong, text in [
        ({**state, "more": state["step"]}, "more is nothing that this optimizer keeps"),
        ({name: value for name, value in state.items() if name != "step"}, "step is missing"),
        ({**state, "exp_avg.head.bias": np.zeros(3)}, r"exp_avg.head.bias is \[3\]; it must be \[2\]"),
    ]:
        with pytest.raises(lf.Error, match=text):
            resumed.load_state_dict(wrong)
    assert resumed.position == 10


def test_a_step_that_is_not_finite_changes_nothing():
    w = {"w": np.ones(3, "f4")}
    minimiser = Minimiser(w, Adam(), lr=0.1)

    def step(x, w):
        return minimiser.minimise((x * w).sum(), {"w": w})

    program = lf.compile(step, np.ones(3, "f4"), params=w)
    program(np.array([1, np.nan, 1], "f4"))
    assert w["w"].tolist() == [1, 1, 1] and minimiser.position == 0
    assert program(np.ones(3, "f4")).item() == pytest.approx(3**0.5)
    assert (w["w"] < 1).all() and minimiser.position == 1
    minimiser.lr = 0.0
    held = w["w"].copy()
    program(np.ones(3, "f4"))
    assert minimiser.lr == 0.0 and (w["w"] == held).all() and minimiser.position == 2


def test_named_schedules():
    made = Minimiser({"w": np.ones(2)}, Sgd(), lr=0.1, schedule="cosine", steps=100)
    assert made.lr == pytest.approx(0.02)
    with pytest.raises(lf.ArgumentError, match="follows a schedule"):
        made.lr = 0.1


def test_what_is_refused():
    w = weights()
    x, y = samples()
    made = Minimiser(w, Sgd(), lr=0.1)
    outer = {}
    leaked = Minimiser(w, Optimizer(lambda u: u.parameter * outer["body.bias"].sum()), lr=0.1)

    def leaking(x, y, **w):
        outer.update(w)
        return leaked.minimise(loss_of(x, y, w), w)

    def step(function, **options):
        minimiser = Minimiser(w, Optimizer(function, **options), lr=0.1)
        return trained(weights(), minimiser, 1)

    def twice(x, y, **w):
        made.minimise(loss_of(x, y, w), w)
        return made.minimise(loss_of(x, y, w), w)

    for call, error, text in [
        (lambda: Minimiser([1], Sgd(), lr=0.1), lf.ArgumentError, "dictionary of arrays"),
        (lambda: Minimiser(w, "adam", lr=0.1), lf.ArgumentError, "one of landfall.optim"),
        (lambda: Minimiser(w, Sgd()), lf.ArgumentError, "lr is missing"),
        (lambda: Minimiser(w, Sgd(), lr=-1), lf.AttributeValueError, "finite and at least 0"),
        (lambda: Minimiser(w, Sgd(), lr=0.1, freeze="head"), lf.ArgumentError, "must be a list of names"),
        (
            lambda: Minimiser(w, Sgd(), lr=0.1, freeze=["hed."]),
            lf.ArgumentError,
            "no parameter is called .*hed.*body.weight",
        ),
        (lambda: Minimiser(w, Sgd(), lr=0.1, freeze=["eight"]), lf.ArgumentError, "no parameter is called"),
        (lambda: Minimiser(w, Sgd(), lr=0.1, freeze=[""]), lf.ArgumentError, "no parameter that is trained"),
        (lambda: Minimiser(w, Sgd(), lr=0.1, groups={"head": {"lr": 1e-3}}), lf.ArgumentError, "lr_factor"),
        (lambda: Minimiser(w, Sgd(), lr=0.1, schedule="cosine"), lf.ArgumentError, "belong together"),
        (lambda: Minimiser(w, Sgd(), lr=0.1, schedule="cosin", steps=3), lf.AttributeValueError, "one of constant"),
        (lambda: Minimiser(w, Sgd(), schedule=lambda s: -1.0, steps=3), lf.AttributeValueError, "for step 0"),
        (lambda: Minimiser({"w": np.ones(2, "i8")}, Sgd(), lr=0.1), lf.DTypeError, "int64"),
        (
            lambda: Minimiser({"w": np.ones(2), "v": np.ones(2, "f4")}, Sgd(), lr=0.1),
            lf.DTypeError,
            "float32 and float64",
        ),
        (lambda: trained(weights(), Minimiser(w, Adam(betas=(1.0, 0.9)), lr=0.1), 1), lf.Error, "beta1 is 1"),
        (lambda: trained(weights(), Minimiser(w, Sgd(nesterov=True), lr=0.1), 1), lf.Error, "above 0 with nesterov"),
        (lambda: trained(weights(), Minimiser(w, Sgd(), lr=0.1, clip=0.0), 1), lf.Error, "clip is 0"),
        (lambda: made.minimise(3.0, w), lf.ArgumentError, "the loss is 3.0"),
        (lambda: Optimizer(3), lf.ArgumentError, "must be a function"),
        (lambda: step(lambda u: u.parameter, moments=3), lf.AttributeValueError, "0, 1 or 2"),
        (lambda: step(lambda u: u.parameter, moments=1), lf.ArgumentError, "returned 1 values; it must return 2"),
        (lambda: step(lambda u: u.parameter.sum()), lf.ShapeError, r"shape \[\]"),
        (lambda: step(lambda u: u.parameter.relu), lf.ArgumentError, "call it"),
        (lambda: lf.compile(leaking, x[0], y[0], params=w), lf.ArgumentError, "another traced function"),
        (lambda: lf.compile(twice, x[0], y[0], params=w), lf.ArgumentError, "took its step in this function already"),
        (
            lambda: lf.compile(lambda x, w: made.minimise(x.sum(), {}), x[0], params={"w": x[0]}),
            lf.ArgumentError,
            "parameter .* is None",
        ),
    ]:
        with pytest.raises(error, match=text):
            call()
    frozen = {"w": np.ones(3)}
    frozen["w"].flags.writeable = False
    minimiser = Minimiser(frozen, Sgd(), lr=0.1)
    with pytest.raises(lf.Error, match="read-only"):
        lf.compile(lambda w: minimiser.minimise((w * w).sum(), {"w": w}), params=frozen)
    trainer = lambda **more: lf.Trainer(
        lambda b, p: (b["x"] * p["w"]).mean(), {"w": np.ones(4, "f4")}, {"x": x[0].astype("f4")}, **more
    )  # noqa: E731
    for more, error, text in [
        ({"optimizer": Sgd(), "betas": (0.9, 0.9)}, lf.ArgumentError, "betas are given beside"),
        ({"schedule": lambda step: 0.1, "lr": 0.1}, lf.ArgumentError, "lr is given beside"),
        ({"schedule": lambda step: None}, lf.AttributeValueError, "for step 0"),
        ({"freeze": ["v"]}, lf.ArgumentError, "no parameter is called"),
        ({"optimizer": Optimizer(lambda u: 1 / 0)}, ZeroDivisionError, "division"),
    ]:
        with pytest.raises(error, match=text):
            trainer(**more)
