"""Ops in JAX: values and gradients beside JAX's own gathers, the structs of XLA's header, buffers that XLA shares, several devices."""

import functools
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

import landfall.jax as lj  # noqa: E402
from landfall import _landfall, errors  # noqa: E402

DTYPES = ("float32", "bfloat16", "float16")
#: tokens, experts, columns, experts of a token, capacity of the permuted buffer
SIZES = [(12, 5, 8, 2, 24), (7, 3, 1, 3, 21), (16, 4, 33, 1, 9), (1, 1, 4, 1, 1), (20, 6, 16, 2, 64)]


def routing(seed, tokens, experts, most):
    """Probabilities with ties, and experts without a token where there are enough of them."""
    p = np.random.default_rng(seed).choice([0.0, 0.125, 0.25, 0.5], (tokens, experts)).astype("float32")
    if experts > 2 * most:
        p[:, 1] = -1
    return p


def rows_of(routed, rows):
    """The row of each pair, -1 where it has none, by the definition."""
    found, row = np.full(routed.shape, -1), 0
    for e in range(routed.shape[1]):
        for t in range(routed.shape[0]):
            if routed[t, e]:
                found[t, e] = row if row < rows else -1
                row += 1
    return found


def permuted(x, where, rows):
    """What JAX's own scatter makes of the definition."""
    y = jnp.zeros((rows, x.shape[1]), x.dtype)
    for t, e in zip(*np.nonzero(where >= 0)):
        y = y.at[where[t, e]].set(x[t])
    return y


def merged(y, where, w=None):
    """The sum over the experts of a token, from the highest down, in 32 bits."""
    wide = jnp.promote_types(y.dtype, jnp.float32)
    out = jnp.zeros((where.shape[0], y.shape[1]), wide)
    for t, e in sorted(zip(*np.nonzero(where >= 0)), key=lambda pair: -pair[1]):
        factor = 1 if w is None else w[t, e].astype(wide)
        out = out.at[t].add(y[where[t, e]].astype(wide) * factor)
    return out.astype(y.dtype)


def made(sizes, dtype):
    tokens, experts, columns, most, rows = sizes
    p = routing(tokens, tokens, experts, most)
    routed, weights = lj.top_k(p, k=most)
    x = np.random.default_rng(1).standard_normal((tokens, columns)).astype("float32")
    where = rows_of(np.asarray(routed), rows)
    return jnp.asarray(x, dtype), jnp.asarray(weights, dtype), lj.route_map(routed, most=most, rows=rows), where


def near(found, wanted, dtype):
    tolerance = {"float32": 1e-6, "bfloat16": 2e-2, "float16": 2e-3, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(np.asarray(found, "float64"), np.asarray(wanted, "float64"), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_permute_and_unpermute_are_those_of_jax_with_their_gradients(sizes, dtype):
    x, w, (map, source, _, _), where = made(sizes, dtype)
    rows = sizes[-1]
    assert np.array_equal(np.asarray(lj.permute(x, map, source)), np.asarray(permuted(x, where, rows)))
    y, carried = jax.jit(lj.permute)(x, map, source, w)
    assert np.array_equal(np.asarray(y), np.asarray(permuted(x, where, rows)))
    near(lj.unpermute(y, map, source, w), merged(y, where, w), dtype)

    def ours(x, w):
        y, carried = lj.permute(x, map, source, w)
        wave = jnp.arange(y.size, dtype="float32").reshape(y.shape) % 7 - 3
        return (lj.unpermute(y * wave.astype(y.dtype), map, source, w).astype("float32") ** 2).sum() + (
            carried.astype("float32") ** 2
        ).sum()

    def theirs(x, w):
        y = permuted(x, where, rows)
        wave = jnp.arange(y.size, dtype="float32").reshape(y.shape) % 7 - 3
        kept = jnp.where(where >= 0, w, 0).astype("float32")
        return (merged(y * wave.astype(y.dtype), where, w).astype("float32") ** 2).sum() + (kept**2).sum()

    for found, wanted in zip(jax.jit(jax.grad(ours, (0, 1)))(x, w), jax.grad(theirs, (0, 1))(x, w)):
        scale = max(1.0, float(jnp.abs(wanted.astype("float32")).max()))
        near(found.astype("float32") / scale, wanted.astype("float32") / scale, dtype)


def test_two_derivatives_of_a_linear_op_are_jax_s():
    x, _, (map, source, _, _), where = made(SIZES[0], "float32")
    ours = jax.grad(lambda x: (jax.grad(lambda x: (lj.permute(x, map, source) ** 3).sum())(x) ** 2).sum())
    theirs = jax.grad(lambda x: (jax.grad(lambda x: (permuted(x, where, 24) ** 3).sum())(x) ** 2).sum())
    near(ours(x), theirs(x), "float32")


@pytest.mark.parametrize("probs", [False, True])
def test_chunks_are_sorted_by_index(probs):
    sizes, order = np.array([3, 0, 5, 2], "int32"), np.array([2, 3, 0, 1], "int32")
    x = np.random.default_rng(2).standard_normal((12, 6)).astype("float32")
    p = np.arange(12, dtype="float32")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    index = np.concatenate([np.arange(starts[j], starts[j] + sizes[j]) for j in order] + [np.arange(10, 12)])
    if probs:
        found, carried = lj.sort_chunks_by_index(x, sizes, order, p)
        assert np.array_equal(np.asarray(carried), p[index])
    else:
        found = lj.sort_chunks_by_index(x, sizes, order)
    assert np.array_equal(np.asarray(found), x[index])

    def loss(sort, x):
        return (sort(x) * np.arange(72, dtype="float32").reshape(12, 6)).sum()

    ours = jax.grad(lambda x: loss(lambda x: lj.sort_chunks_by_index(x, sizes, order), x))(x)
    assert np.array_equal(np.asarray(ours), np.asarray(jax.grad(lambda x: loss(lambda x: x[index], x))(jnp.asarray(x))))


@pytest.mark.parametrize("dtype", DTYPES)
def test_grouped_matmul_is_a_product_by_expert_with_its_gradients(dtype):
    x, _, (map, source, counts, offsets), where = made(SIZES[4], dtype)
    y = lj.permute(x, map, source)
    w = jnp.asarray(np.random.default_rng(3).standard_normal((6, 16, 5)).astype("float32"), dtype)
    expert = np.full(y.shape[0], -1)
    for t, e in zip(*np.nonzero(where >= 0)):
        expert[where[t, e]] = e

    def theirs(y, w):
        wide = jnp.einsum("rk,rkf->rf", y.astype("float32"), w.astype("float32")[np.maximum(expert, 0)])
        return jnp.where((expert >= 0)[:, None], wide, 0).astype(y.dtype)

    near(lj.grouped_matmul(y, w, counts, offsets), theirs(y, w), dtype)

    def loss(product):
        return lambda y, w: (product(y, w).astype("float32") ** 2).sum()

    ours = jax.grad(loss(lambda y, w: lj.grouped_matmul(y, w, counts, offsets)), (0, 1))(y, w)
    for found, wanted in zip(ours, jax.grad(loss(theirs), (0, 1))(y, w)):
        scale = max(1.0, float(jnp.abs(wanted.astype("float32")).max()))
        near(found.astype("float32") / scale, wanted.astype("float32") / scale, dtype)


def test_top_k_takes_the_lower_index_of_equal_ones_and_has_a_gradient():
    p = jnp.asarray([[0.25, 0.5, 0.25, 0.0], [0.0, 0.0, 0.0, 0.0]])
    routed, weights = lj.top_k(p, k=2, renormalise=False)
    assert np.asarray(routed).tolist() == [[True, True, False, False], [True, True, False, False]]
    assert np.asarray(weights).tolist() == [[0.25, 0.5, 0, 0], [0, 0, 0, 0]]
    gradient = jax.grad(lambda p: (lj.top_k(p, k=2)[1][:, 0] * 1.0).sum())(p[:1])
    near(gradient, [[0.5 / 0.75**2, -0.25 / 0.75**2, 0, 0]], "float32")


def test_no_tokens():
    map, source, counts, offsets = lj.route_map(np.zeros((0, 3), bool), most=1, rows=4)
    assert np.asarray(counts).tolist() == [0, 0, 0]
    assert np.asarray(lj.permute(np.zeros((0, 2), "float32"), map, source)).tolist() == [[0, 0]] * 4
    y = lj.unpermute(np.ones((4, 2), "float32"), map, source)
    assert y.shape == (0, 2)


def test_x64():
    with jax.enable_x64(True):
        x, w, (map, source, _, _), where = made(SIZES[0], "float64")
        assert x.dtype == "float64"
        near(lj.unpermute(permuted(x, where, 24), map, source, w), merged(permuted(x, where, 24), where, w), "float64")


def test_any_op_of_the_table_can_be_called():
    x = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
    near(jax.jit(lambda x: lj.call("softmax", x, axis=-1))(x), jax.nn.softmax(x), "float32")
    near(lj.call("sum", x, axes=(0,)), x.sum(0), "float32")
    assert lj.call("cast", x, dtype="int32").dtype == "int32"
    w = np.random.default_rng(4).standard_normal((64, 48)).astype("float32")
    product = lj.call("matmul", np.ones((8, 64), "float32"), w)
    np.testing.assert_allclose(np.asarray(product), w.sum(0, dtype="float64")[None].repeat(8, 0), rtol=1e-5, atol=1e-5)


def test_an_op_that_updates_an_argument_leaves_it_to_others():
    with jax.enable_x64(True):
        into = jnp.zeros((4,), "float32")
        index, source = jnp.array([1, 1, 3]), np.ones(3, "float32")
        found = jax.jit(lambda into: (lj.call("scatter_add", into, index, source, axis=0), into))(into)
    assert np.asarray(found[0]).tolist() == [0, 2, 0, 1]
    assert np.asarray(found[1]).tolist() == [0, 0, 0, 0]


def test_vmap_is_one_call_after_another():
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    map, source, _, _ = lj.route_map(np.eye(3, dtype=bool), most=1, rows=3)
    assert np.array_equal(np.asarray(jax.vmap(lambda x: lj.permute(x, map, source))(x)), x)


def test_wrong_calls_are_named():
    x = np.zeros((2, 2), "float32")
    with pytest.raises(errors.ArgumentError, match='no op is called "permut"'):
        lj.call("permut", x)
    with pytest.raises(errors.ArgumentError, match="axes"):
        lj.call("sum", x, axis=0)
    with pytest.raises(errors.ShapeError, match="permute"):
        lj.permute(x, np.zeros((3, 3), "int32"), np.zeros(3, "int32"))
    with pytest.raises(errors.ArgumentError, match="drop_zero is about probabilities"):
        lj.permute(x, np.zeros((2, 3), "int32"), np.zeros(3, "int32"), drop_zero=True)
    with pytest.raises(errors.DTypeError, match="complex64"):
        lj.call("neg", np.zeros(2, "complex64"))


def test_an_index_out_of_range_fails_on_the_cpu():
    map = np.array([[7, 0, 1]], "int32")
    with jax.default_device(jax.devices("cpu")[0]), pytest.raises(Exception, match="7") as raised:
        jax.block_until_ready(lj.permute(np.ones((1, 2), "float32"), map, np.zeros(3, "int32")))
    assert "permute" in str(raised.value)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX has no GPU here")
@pytest.mark.parametrize("calls", [1, 40])
def test_an_index_out_of_range_is_reported_by_synchronize_on_a_gpu(calls):
    """No call waits, and XLA has its memory back before anybody looks."""
    good, bad = np.array([[0, 0, 1]], "int32"), np.array([[7, 0, 1]], "int32")
    run = jax.jit(lambda map: [lj.permute(np.full((1, 2), i, "float32"), map, np.zeros(3, "int32")) for i in range(calls)])
    jax.block_until_ready(run(good))
    _landfall.synchronize("cuda")
    jax.block_until_ready(run(bad))
    with pytest.raises(errors.IndexOutOfRangeError, match="index 7"):
        _landfall.synchronize("cuda")
    jax.block_until_ready(run(good))
    _landfall.synchronize("cuda")


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX has no GPU here")
def test_more_than_2_to_the_31_elements_on_a_gpu():
    tokens, columns = 300_007, 7_168
    assert tokens * columns > 2**31
    x = jax.random.normal(jax.random.key(0), (tokens, columns), "bfloat16")
    routed = jax.nn.one_hot(jax.random.randint(jax.random.key(1), tokens, 0, 8), 8, dtype="uint8")
    map, source, _, _ = lj.route_map(routed, most=1, rows=tokens)
    rows = lj.permute(x, map, source)
    assert bool((rows == x[source]).all())
    # A sum of one row, forward, and its gradient.
    z, back = jax.vjp(lambda y: lj.unpermute(y, map, source), rows)
    assert bool((z == x).all()) and bool((back(z)[0] == rows).all())


def test_a_result_over_an_argument_is_an_error_with_both_ranges():
    """What a compiler did that gave a permutation's input and output one buffer: refused by the call, not computed."""
    map, source, _, _ = lj.route_map(np.eye(4, dtype=bool)[::-1], most=1, rows=4)
    x = jnp.arange(32, dtype="float32").reshape(4, 8)
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def forced(x):
        made = jax.ffi.ffi_call("landfall_call", result, input_output_aliases={0: 0})
        return made(x, map, source, landfall_op="permute", probs=np.bool_(False), drop_zero=np.bool_(False))

    with pytest.raises(Exception, match="shared memory") as raised:
        jax.block_until_ready(jax.jit(forced, donate_argnums=0)(x + 0))
    assert re.search(r"permute.*output 0 and input 0.*bytes 0\.\.128 and 0\.\.128", str(raised.value), re.S)


def test_donated_and_live_buffers_never_change_a_result():
    rng = np.random.default_rng(5)
    for program in range(12):
        tokens, experts, columns, most = (int(rng.integers(1, n)) for n in (200, 9, 70, 4))
        most = min(most, experts)
        rows = int(rng.integers(1, tokens * most + 9))

        @functools.partial(jax.jit, donate_argnums=(0, 1) if program % 2 else ())
        def run(x, p, live):
            routed, weights = lj.top_k(jax.nn.softmax(p), k=most)
            map, source, _, _ = lj.route_map(routed, most=most, rows=rows, align=1 + program % 3)
            y = lj.permute(x, map, source) * 2
            held = [jnp.roll(y, i, 0) + live for i in range(program)]
            z = lj.unpermute(y, map, source, weights)
            return z, routed, weights, sum(h.sum() for h in held)

        for _ in range(3):
            x = rng.standard_normal((tokens, columns)).astype("float32")
            p = rng.standard_normal((tokens, experts)).astype("float32")
            z, routed, weights, _ = run(jnp.array(x), jnp.array(p), float(rng.standard_normal()))
            where = aligned(np.asarray(routed), rows, 1 + program % 3)
            wanted = (np.where(where >= 0, np.asarray(weights), 0).sum(1)[:, None] * 2 * x)
            np.testing.assert_allclose(np.asarray(z), wanted, rtol=2e-6, atol=2e-6)


def aligned(routed, rows, align):
    """`rows_of` where each expert's rows start at a multiple."""
    found, row = np.full(routed.shape, -1), 0
    for e in range(routed.shape[1]):
        row = -(-row // align) * align
        for t in np.nonzero(routed[:, e])[0]:
            found[t, e] = row if row < rows else -1
            row += 1
    return found


SHARDED = """
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
import landfall.jax as lj
mesh = jax.make_mesh((4,), ("e",), axis_types=(jax.sharding.AxisType.Auto,))
E, H, F, T, k = 8, 16, 8, 32, 2
rng = np.random.default_rng(0)
x, p = rng.standard_normal((T, H)).astype("float32"), rng.standard_normal((T, E)).astype("float32")
w = rng.standard_normal((E, H, F)).astype("float32")

def layer(x, p, w, ranks):
    # Each rank's tokens, sorted by expert, go to the ranks of their experts and come back.
    rows, own = k * x.shape[0], E // ranks
    routed, weights = lj.top_k(jax.nn.softmax(p), k=k)
    map, source, counts, offsets = lj.route_map(routed, most=k, rows=E * rows, align=1)
    cells = jnp.where(jnp.arange(rows)[None] < counts[:, None], offsets[:-1, None] + jnp.arange(rows)[None], E * rows)
    y = jnp.concatenate([lj.permute(x, map, source), jnp.zeros((1, H))])[cells]
    sent = jax.lax.all_to_all(y.reshape(ranks, own * rows, H), "e", 0, 0) if ranks > 1 else y[None].reshape(1, E * rows, H)
    z = jnp.einsum("robh,ohf->robf", sent.reshape(ranks, own, rows, H), w).reshape(ranks, own * rows, F)
    back = jax.lax.all_to_all(z, "e", 0, 0) if ranks > 1 else z
    flat = jnp.zeros((E * rows + 1, F)).at[cells.reshape(-1)].set(back.reshape(-1, F))[:-1]
    return lj.unpermute(flat, map, source, weights)

one = lambda x, p, w: (layer(x, p, w, 1) ** 2).sum()
part = jax.shard_map(lambda x, p, w: jax.lax.psum((layer(x, p, w, 4) ** 2).sum(), "e"), mesh=mesh,
                     in_specs=(P("e"), P("e"), P("e")), out_specs=P(), check_vma=False)
a, b = jax.value_and_grad(one, (0, 1, 2))(x, p, w), jax.jit(jax.value_and_grad(part, (0, 1, 2)))(x, p, w)
np.testing.assert_allclose(a[0], b[0], rtol=1e-5)
for one, other in zip(a[1], b[1]):
    np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
print("sharded", len(jax.devices()))
"""


def test_expert_parallel_by_jax_s_own_collectives():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=os.environ | flags, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "sharded 4"


def test_the_structs_are_those_of_the_header_that_jaxlib_ships(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    if tuple(map(int, jax.__version__.split(".")[:2])) < (0, 11):
        pytest.skip(f"the header of jaxlib {jax.__version__} has other names")
    layout = _landfall._xla_layout()
    lines = "".join(f'printf("%zu\\n", (size_t){what});' for what, _ in layout)
    source = f'#include <stdio.h>\n#include <stddef.h>\n#include "xla/ffi/api/c_api.h"\nint main(void) {{ {lines} return 0; }}'
    (tmp_path / "layout.c").write_text(source)
    program = str(tmp_path / "layout")
    subprocess.run([compiler, "-I", jax.ffi.include_dir(), "-o", program, str(tmp_path / "layout.c")], check=True)
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert [int(size) for size in found] == [size for _, size in layout]
