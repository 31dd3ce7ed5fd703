"""Random numbers of programs and of losses, values that a step keeps, buffers, blocks that are computed again, and threads."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.normal(size=shape).astype("f4")


def noisy(x):
    return x + lf.normal(x.shape), lf.uniform((4, 1000), -2.0, 3.0)


def test_a_program_draws_anew_at_each_run_and_the_same_from_a_seed_on():
    x = np.zeros((4, 1000), "f4")
    program = lf.compile(noisy, x, seed=5)
    assert list(program.inputs) == ["x"] and list(program.outputs) == ["out0", "out1"]
    runs = [[part.numpy().copy() for part in program(x)] for _ in range(3)]
    normal, uniform = (np.stack([run[part] for run in runs]) for part in (0, 1))
    assert len(np.unique(normal)) > 11_000 and len(np.unique(uniform)) > 11_000
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert uniform.min() >= -2 and uniform.max() <= 3 and abs(uniform.mean() - 0.5) < 0.1
    assert abs(np.corrcoef(normal.ravel(), uniform.ravel())[0, 1]) < 0.06
    program.seed(5)
    again = [[part.numpy().copy() for part in program(x)] for _ in range(3)]
    np.testing.assert_array_equal(again, runs)
    np.testing.assert_array_equal(lf.compile(noisy, x, seed=5)(x)[0].numpy(), runs[0][0])
    assert (lf.compile(noisy, x)(x)[0].numpy() != runs[0][0]).any()
    # `run` draws as a call does.
    out = np.empty_like(x), np.empty_like(x)
    program.bind(x=x, out0=out[0], out1=out[1])
    program.seed(5)
    for run in runs:
        program.run()
        np.testing.assert_array_equal(out, run)


def test_a_function_of_no_arguments_draws():
    program = lf.compile(lambda: lf.normal(6, "float64"))
    first, second = program().numpy().copy(), program().numpy().copy()
    assert first.shape == (6,) and first.dtype == np.float64 and (first != second).all()


def test_dropout_of_a_program_drops_where_it_is_asked_for():
    x = np.ones((64, 64), "f4")
    plain, dropping = (lf.compile(lambda x: x.dropout(0.25), x, dropout=drops) for drops in (False, True))
    assert (plain(x).numpy() == 1).all()
    a, b = dropping(x).numpy().copy(), dropping(x).numpy().copy()
    assert (a != b).any() and abs(a.mean() - 1) < 0.05 and set(np.unique(a)) == {np.float32(0), np.float32(1 / 0.75)}
    with pytest.raises(lf.ArgumentError, match="the program draws no random numbers, so it has no seed"):
        plain.seed(1)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: lf.normal((2,)), lf.ArgumentError, "normal belongs in a function that landfall.compile or"),
        (lambda x: lf.compile(lambda x: lf.normal((2,), "int32"), x), lf.Error, "must be that of a float"),
        (lambda x: lf.compile(lambda x: lf.uniform((2,), 0.0, float("inf")), x), lf.Error, "high"),
        (lambda x: lf.compile(lambda x: x + lf.normal((3,)), x), lf.ShapeError, "add"),
        (lambda x: lf.compile(lambda x: x + lf.normal((2,)), x, seed=-1), lf.ArgumentError, "seed is -1"),
        (lambda x: lf.compile(lambda x: x + lf.normal((2,)), x).seed(0.5), lf.ArgumentError, "seed is 0.5"),
        (lambda x: lf.checkpoint(lambda x: x, x), lf.ArgumentError, "checkpoint belongs in a function"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(np.zeros(2, "f4"))


def test_losses_draw_and_keep_values():
    def loss(batch, params):
        noise = lf.normal(batch["x"].shape)
        hidden = (batch["x"] + noise) * params["w"]
        return (hidden**2).mean(), {"noise": noise, "hidden": hidden}

    x = array(32, 3)
    trainer = lf.Trainer(loss, {"w": np.ones(3, "f4")}, {"x": x}, batch=32, order="sequential", lr=0.0, max_steps=4)
    noises = []
    for _ in range(4):
        trainer.step()
        noise = trainer.kept("noise").numpy()
        np.testing.assert_allclose(trainer.kept("hidden").numpy(), x + noise, rtol=1e-6)
        noises.append(noise)
    assert all((noises[a] != noises[b]).any() for a in range(4) for b in range(a))
    with pytest.raises(lf.Error, match="no kept value other; it has noise, hidden"):
        trainer.kept("other")


def queue_loss(batch, params, buffers):
    distance = (batch["x"] * params["w"] - buffers["queue"].mean()) ** 2
    return distance.mean(), {"queue": buffers["queue"][4:].concat(batch["x"], axis=0)}


def queue_trainer(**options):
    x = np.arange(12, dtype="f4").reshape(12, 1)
    given = {"batch": 4, "order": "sequential", "lr": 0.01, "epochs": 4, **options}
    return lf.Trainer(
        queue_loss, {"w": np.ones(1, "f4")}, {"x": x}, buffers={"queue": np.full((8, 1), 7, "f4")}, **given
    )


def test_buffers_are_assigned_and_a_file_keeps_them(tmp_path):
    trainer = queue_trainer()
    assert (trainer.buffers()["queue"].numpy() == 7).all()
    trainer.step()
    assert trainer.buffers()["queue"].numpy().ravel().tolist() == [7, 7, 7, 7, 0, 1, 2, 3]
    trainer.save(tmp_path / "trainer.safetensors")
    rest = trainer.fit()
    resumed = queue_trainer()
    resumed.load(tmp_path / "trainer.safetensors")
    assert resumed.fit() == rest
    np.testing.assert_array_equal(resumed.buffers()["queue"].numpy(), trainer.buffers()["queue"].numpy())
    assert list(resumed.state_dict()) == ["w"]
    with pytest.raises(lf.Error, match="it must be 1 where a loss assigns a buffer"):
        queue_trainer(accumulate=2)
    with pytest.raises(lf.ArgumentError, match="w is the name of a parameter and of a buffer"):
        lf.Trainer(queue_loss, {"w": np.ones(1, "f4")}, {"x": array(4, 1)}, buffers={"w": np.ones(1, "f4")})
    with pytest.raises(lf.ArgumentError, match="by the name 'w'; a name is a text, and what has it a value"):
        lf.Trainer(lambda batch, params: (params["w"].mean(), {"w": 3.0}), {"w": np.ones(1, "f4")}, {"x": array(4, 1)})


def deep(x, weights, wrap):
    for weight in weights:
        x = wrap(lambda x, w: x + ((x @ w).tanh() * lf.normal(x.shape)).dropout(0.3), x, weight)
    return x


def test_a_checkpoint_gives_the_same_gradients_with_less_memory():
    x, weights = array(64, 32), {f"w{i}": array(32, 32) / 8 for i in range(10)}

    def gradients(wrap):
        def function(x, **weights):
            loss = (deep(x, weights.values(), wrap) ** 2).mean()
            return dict(zip(weights, loss.gradients(list(weights.values()))))

        program = lf.compile(function, x, params=weights, dropout=True, seed=3)
        return program(x), program.report()

    kept, more = gradients(lambda function, *args: function(*args))
    again, less = gradients(lf.checkpoint)
    for name in weights:
        np.testing.assert_array_equal(kept[name].numpy(), again[name].numpy())
        assert np.abs(kept[name].numpy()).max() > 0
    assert less["arena_bytes"] < 0.75 * more["arena_bytes"], (less["arena_bytes"], more["arena_bytes"])
    assert less["recomputed"] >= more["recomputed"] + 20


def test_training_with_checkpoints_gives_the_same_weights():
    def weights(wrap):
        def loss(batch, params):
            return (deep(batch["x"], params.values(), wrap) ** 2).mean()

        params = {f"w{i}": np.full((8, 8), 0.1, "f4") for i in range(4)}
        trainer = lf.Trainer(loss, params, {"x": np.ones((16, 8), "f4")}, batch=8, epochs=3)
        trainer.fit()
        return trainer.state_dict()

    kept, again = weights(lambda function, *args: function(*args)), weights(lf.checkpoint)
    for name, value in kept.items():
        np.testing.assert_array_equal(value.numpy(), again[name].numpy())


def predict(x, w):
    for _ in range(8):
        x = (x @ w).tanh()
    return x


def test_threads_run_programs_on_one_set_of_weights():
    w, inputs = array(64, 64) / 8, [array(16, 64) for _ in range(4)]
    expected = [lf.compile(predict, x, params={"w": w})(x).numpy() for x in inputs]

    def work(x):
        program = lf.compile(predict, x, params={"w": w})
        return [program(x).numpy() for _ in range(30)]

    with ThreadPoolExecutor(4) as threads:
        for results, want in zip(threads.map(work, inputs), expected):
            for result in results:
                np.testing.assert_array_equal(result, want)


def test_other_threads_run_while_a_program_does():
    x, w = array(256, 256), array(256, 256) / 16
    program, done, ticks = lf.compile(predict, x, params={"w": w}), threading.Event(), []

    def tick():
        while not done.wait(0.0002):
            ticks.append(time.perf_counter())

    program(x)
    thread = threading.Thread(target=tick)
    thread.start()
    inside = 0
    for _ in range(50):
        start = time.perf_counter()
        program.run()
        quarter = (time.perf_counter() - start) / 4
        inside += sum(start + quarter < at < start + 3 * quarter for at in ticks)
        if inside:
            break
    done.set()
    thread.join()
    assert inside > 0


def test_an_asyncio_server_answers_by_programs_of_a_pool():
    w = array(16, 4)
    programs = [lf.compile(lambda x, w: (x @ w).softmax(axis=-1), lf.spec((1, 16)), params={"w": w}) for _ in range(2)]

    async def serve(requests):
        free = asyncio.Queue()
        for program in programs:
            free.put_nowait(program)
        with ThreadPoolExecutor(len(programs)) as threads:

            async def answer(row):
                program = await free.get()
                try:
                    run = lambda: program(row[None]).numpy()[0]
                    return await asyncio.get_running_loop().run_in_executor(threads, run)
                finally:
                    free.put_nowait(program)

            return await asyncio.gather(*map(answer, requests))

    rows = array(50, 16)
    answers = np.stack(asyncio.run(serve(rows)))
    exp = np.exp(rows @ w)
    np.testing.assert_allclose(answers, exp / exp.sum(-1, keepdims=True), rtol=1e-5)
