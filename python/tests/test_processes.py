"""Forks, spawned processes, threads, and the end of the interpreter."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import landfall as lf

X = np.arange(1 << 18, dtype="f4").reshape(512, 512) / 1e5


def product(tensor):
    """A product that the engine's threads share."""
    return float((lf.ops.matmul(tensor, X)).numpy().sum())


def forked(work):
    """What `work` returns in a forked child: its pickle, or its exception's text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # A child that waits for threads that it does not have ends.
        signal.alarm(60)
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pickle.load(pipe)
    assert os.waitpid(child, 0)[1] == 0
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_computes_with_an_engine_of_its_own():
    tensor = lf.from_numpy(X)[:, :]
    own = lf.zeros((512, 512))
    want = product(tensor)

    def work():
        lf.ops.copy(tensor, out=own)
        own[0] = 1
        return product(tensor), own[0, :3].tolist(), pickle.loads(pickle.dumps(own)).shape, forked(lambda: product(own))

    got = forked(work)
    assert not isinstance(got, str), got
    assert got[:3] == (want, [1.0] * 3, (512, 512)) and got[3] > 0
    # The child's memory is a copy.
    assert not own.numpy().any()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_function_compiles_again_in_a_forked_child():
    double = lf.jit(lambda x: x * 2.0)
    x = np.arange(3, dtype="f4")
    assert double(x).tolist() == [0.0, 2.0, 4.0]
    assert forked(lambda: (double(x).tolist(), len(double.programs))) == ([0.0, 2.0, 4.0], 2)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_other_start_methods_compute(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    tensor = lf.from_numpy(X)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(product, [tensor] * 4) == [product(tensor)] * 4


def test_threads_share_an_engine():
    want = lf.ops.matmul(X, X).numpy()
    shared = lf.from_numpy(X)
    wrong = []

    def work():
        out = np.empty_like(X)
        for _ in range(5):
            lf.ops.matmul(shared, X, out=out)
            if not np.array_equal(out, want):
                wrong.append(out)

    threads = [threading.Thread(target=work) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_the_interpreter_ends_with_shared_memory_alive():
    script = """if True:
        import atexit, threading, landfall as lf, numpy as np
        kept = [lf.from_numpy(np.ones(10)), np.from_dlpack(lf.zeros(10)), lf.zeros(3).__dlpack__(max_version=(1, 0))]
        class Held:
            pass
        cycle = Held(); cycle.me, cycle.it = cycle, kept
        atexit.register(lambda: lf.ops.exp(kept[0]))
        threading.Thread(target=lambda: [lf.ops.exp(kept[0]) for _ in range(10**9)], daemon=True).start()
        print(lf.ops.sum(kept[0]).item())
    """
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "10.0\n", "")


def test_importing_starts_no_thread():
    script = "import landfall, os; print(len(os.listdir('/proc/self/task')))"
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("this system does not list threads")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.stdout == "1\n", done.stderr


def test_an_absent_gpu_is_said():
    if lf_has_gpu():
        pytest.skip("this machine has a GPU")
    for call in [
        lambda: lf.zeros(3, device="cuda"),
        lambda: lf.zeros(3).to("cuda:1"),
        lambda: lf.tensor([1.0], device="cuda:0"),
        lambda: lf.counters("cuda"),
    ]:
        with pytest.raises(lf.DeviceError, match="CUDA") as caught:
            call()
        assert "install" in str(caught.value) or "visible" in str(caught.value)


def lf_has_gpu():
    """Whether there is a GPU."""
    try:
        lf.counters("cuda")
    except lf.DeviceError:
        return False
    return True
