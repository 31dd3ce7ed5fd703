"""The ops of a mixture of experts in torch: values and gradients beside float64 by the definition, torch's own checks of ops,
destinations, compilation, graphs."""

import shutil
import warnings

import numpy as np
import pytest

import landfall as lf

torch = pytest.importorskip("torch")
from landfall.torch import experts, moe  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
#: Of what is added up; what is only moved is compared bit for bit.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
#: tokens, experts, columns, experts of a token, rows of the buffer
SIZES = [(12, 5, 8, 2, 24), (7, 3, 1, 3, 21), (16, 4, 33, 1, 9), (1, 1, 4, 1, 1), (20, 6, 16, 2, 64), (0, 3, 5, 2, 4)]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


def routing(sizes, device="cpu"):
    """A mask and probabilities, some 0; expert 1 has no token where there are enough, and tokens go to fewer experts than they may."""
    tokens, experts, _, most, _ = sizes
    random = np.random.default_rng(tokens)
    mask = np.zeros((tokens, experts), "int32")
    free = [e for e in range(experts) if e != 1 or experts <= most]
    for t in range(tokens):
        mask[t, random.permutation(free)[: most - t % 2 if most > 1 else 1]] = 1
    probs = random.choice([0.0, 0.25, 0.5, 1.0], (tokens, experts)) + random.integers(0, 2, (tokens, experts)) * 0.125
    return torch.from_numpy(mask).to(device), torch.from_numpy(probs).to(device)


def rows_of(mask, rows, align=1):
    """The row of each pair, -1 where it has none, by the definition."""
    mask = mask.cpu().numpy()
    found, row = np.full(mask.shape, -1), 0
    for e in range(mask.shape[1]):
        row = -(-row // align) * align
        for t in np.nonzero(mask[:, e])[0]:
            found[t, e] = row if row < rows else -1
            row += 1
    return found


def scattered(where, rows):
    """A matrix `[rows, T]` with 1 where a token has the row, and `[rows, T E]` of the pairs."""
    tokens, count = where.shape
    pairs = torch.zeros(rows, tokens, count, dtype=torch.float64)
    for t, e in zip(*np.nonzero(where >= 0)):
        pairs[where[t, e], t, e] = 1
    return pairs


def drawn(*shape, dtype=torch.float64, device="cpu", seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(x).to(device, dtype).requires_grad_()


def near(found, wanted, scale=None):
    found, tolerance = found.detach(), TOLERANCES[found.dtype]
    wanted = wanted.detach().to(found.device)
    scale = max(1.0, float(wanted.abs().max()) if wanted.numel() else 0)
    torch.testing.assert_close(found.double() / scale, wanted.double() / scale, rtol=tolerance, atol=tolerance)


def compared(results, references, args, wide):
    """Gradients of the results for random cotangents, beside those of the float64 references."""
    cotangents = [drawn(*result.shape, dtype=result.dtype, device=result.device, seed=9).detach() for result in results]
    ours = torch.autograd.grad(results, args, cotangents, retain_graph=True)
    theirs = torch.autograd.grad(references, wide, [c.double().cpu() for c in cotangents], retain_graph=True)
    for found, wanted, arg in zip(ours, theirs, args):
        assert found.dtype == arg.dtype
        near(found, wanted)


def wide_of(*tensors):
    return [t.detach().double().cpu().requires_grad_() for t in tensors]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_masks_and_probabilities(sizes, dtype, device):
    tokens, _, columns, _, rows = sizes
    mask, probs = routing(sizes, device)
    x, p = drawn(tokens, columns, dtype=dtype, device=device), probs.to(dtype).requires_grad_()
    pairs = scattered(rows_of(mask, rows), rows)
    wx, wp = wide_of(x, p)
    y, carried, row_id_map = moe.moe_permute_with_probs(x, p, mask, rows)
    kept = torch.einsum("nte,te->nt", pairs, (wp != 0).double())
    references = (kept @ wx, torch.einsum("nte,te->n", pairs, wp))
    assert torch.equal(y.double().cpu(), references[0]) and torch.equal(carried.double().cpu(), references[1])
    compared((y, carried), references, (x, p), (wx, wp))
    z = drawn(rows, columns, dtype=dtype, device=device, seed=3)
    for weights in (None, p):
        merged = moe.moe_unpermute(z, row_id_map, weights, restore_shape=x.shape)
        (wz,) = wide_of(z)
        each = pairs.sum(2) if weights is None else torch.einsum("nte,te->nt", pairs, wp)
        near(merged, each.T @ wz)
        args, wide = ((z,), (wz,)) if weights is None else ((z, p), (wz, wp))
        compared((merged,), (each.T @ wz,), args, wide)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int32, torch.int64], ids=str)
def test_a_mask_may_be_of_any_integers(kind, device):
    mask, _ = routing(SIZES[0], device)
    x = drawn(12, 8, dtype=torch.float32, device=device)
    pairs = scattered(rows_of(mask, 24), 24)
    found, row_id_map = moe.moe_permute(x, mask.to(kind), 24)
    assert torch.equal(found.double().cpu(), pairs.sum(2) @ x.detach().double().cpu())
    # As narrow a map as the most experts of a token need gives the same bytes, as does the number of pairs by itself.
    narrow, map = moe.moe_permute(x, mask.to(kind), 24, most=2)
    assert map.shape[1] == 5 and row_id_map.shape[1] == 11 and torch.equal(found, narrow)
    z = drawn(24, 8, dtype=torch.float32, device=device, seed=3)
    assert torch.equal(moe.moe_unpermute(z, map), moe.moe_unpermute(z, row_id_map))
    every, _ = moe.moe_permute(x, mask.to(kind))
    assert torch.equal(every, found[: int(mask.sum())])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("rows", [0, 7, 24, 30])
def test_indices(rows, dtype, device):
    tokens, columns, most = 12, 5, 2
    index = np.array([np.random.default_rng(t).permutation(6)[:most] for t in range(tokens)], "int32")
    # One expert twice.
    index[3] = 4
    x, p = drawn(tokens, columns, dtype=dtype, device=device), drawn(tokens, most, dtype=dtype, device=device, seed=1)
    y, row_id_map = moe.moe_permute(x, torch.from_numpy(index).to(device), rows, map_type="index")
    capacity = rows or tokens * most
    where = np.full((tokens, most), -1)
    for row, pair in enumerate(np.argsort(index.reshape(-1), kind="stable")[:capacity]):
        where[divmod(pair, most)] = row
    pairs = scattered(where, capacity)
    wx, wp = wide_of(x, p)
    assert torch.equal(y.double().cpu(), pairs.sum(2) @ wx)
    compared((y,), (pairs.sum(2) @ wx,), (x,), (wx,))
    z = drawn(capacity, columns, dtype=dtype, device=device, seed=3)
    (wz,) = wide_of(z)
    merged, plain = (
        moe.moe_unpermute(z, row_id_map, p, map_type="index"),
        moe.moe_unpermute(z, row_id_map, map_type="index"),
    )
    reference = torch.einsum("nte,te->nt", pairs, wp).T @ wz
    near(merged, reference), near(plain, pairs.sum(2).T @ wz)
    compared((merged,), (reference,), (z, p), (wz, wp))


def test_indices_and_their_mask_give_the_same_rows():
    index = torch.from_numpy(np.array([np.random.default_rng(t).permutation(9)[:3] for t in range(40)], "int64"))
    mask = torch.zeros(40, 9, dtype=torch.bool).scatter_(1, index, True)
    x, z, p = drawn(40, 7, dtype=torch.float32), drawn(100, 7, dtype=torch.float32, seed=1), torch.rand(40, 9)
    (a, first), (b, second) = moe.moe_permute(x, index, 100, map_type="index"), moe.moe_permute(x, mask, 100, most=3)
    assert torch.equal(a, b)
    assert torch.equal(moe.moe_unpermute(z, first, p.gather(1, index)), moe.moe_unpermute(z, second, p))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [None, 24, 100])
def test_padding(rows, device):
    sizes = (20, 6, 4, 2, 64)
    mask, probs = routing(sizes, device)
    x, p = drawn(20, 4, dtype=torch.float32, device=device), probs.float().requires_grad_()
    counts = mask.sum(0)
    y, carried, row_id_map, offsets, target = moe.moe_permute_and_pad_with_probs(
        x, p, mask, counts, 8, num_out_tokens=rows
    )
    assert target.tolist() == [-(-c // 8) * 8 for c in counts.tolist()] and counts[1] == 0 and target[1] == 0
    before = np.cumsum([t - c for t, c in zip(target.tolist(), counts.tolist())])
    assert offsets.tolist() == [0, *before[:-1]]
    capacity = y.shape[0]
    assert capacity == (rows or sum(target.tolist()))
    pairs = scattered(rows_of(mask, capacity, 8), capacity)
    wx, wp = wide_of(x, p)
    references = (torch.einsum("nte,te->nt", pairs, (wp != 0).double()) @ wx, torch.einsum("nte,te->n", pairs, wp))
    assert torch.equal(y.double().cpu(), references[0]) and torch.equal(carried.double().cpu(), references[1])
    compared((y, carried), references, (x, p), (wx, wp))
    z = drawn(capacity, 4, dtype=torch.float32, device=device, seed=3)
    (wz,) = wide_of(z)
    merged = moe.moe_unpermute(z, row_id_map, p, restore_shape=x.shape, pad_offsets=offsets)
    reference = torch.einsum("nte,te->nt", pairs, wp).T @ wz
    near(merged, reference)
    # Rows of padding have a gradient of 0.
    compared((merged,), (reference,), (z, p), (wz, wp))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_chunks(dtype, device):
    sizes, order = (
        torch.tensor([3, 0, 5, 2], device=device),
        torch.tensor([2, 3, 0, 1], dtype=torch.int32, device=device),
    )
    x, p = drawn(12, 6, dtype=dtype, device=device), drawn(12, dtype=torch.float32, device=device, seed=1)
    index = torch.tensor([3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 10, 11])
    wx, wp = wide_of(x, p)
    y, carried = moe.moe_sort_chunks_by_index_with_probs(x, p, sizes, order)
    assert torch.equal(y.double().cpu(), wx[index]) and torch.equal(carried.double().cpu(), wp[index])
    compared((y, carried), (wx[index], wp[index]), (x, p), (wx, wp))
    assert torch.equal(moe.moe_sort_chunks_by_index(x, sizes, order), y)
    compared((moe.moe_sort_chunks_by_index(x, sizes, order),), (wx[index],), (x,), (wx,))
    assert torch.equal(experts.sort_chunks(y, experts.chunk_map(sizes, order.long(), 12), inverse=True), x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_layer_by_landfall_s_names(dtype, device):
    """Top 2 of ties, products by expert: values and gradients beside a loop over the experts."""
    tokens, count, columns, rows = 20, 6, 8, 33
    p = (
        torch.from_numpy(np.random.default_rng(0).choice([0.125, 0.25, 0.5], (tokens, count)))
        .to(device, dtype)
        .requires_grad_()
    )
    x, w = (
        drawn(tokens, columns, dtype=dtype, device=device),
        drawn(count, columns, 3, dtype=dtype, device=device, seed=1),
    )
    routed, weights = experts.top_k(p, 2)
    map, source, counts, offsets = experts.route_map(routed, 2, rows)
    y = experts.grouped_matmul(experts.permute(x, map, source), w, counts, offsets)
    z = experts.unpermute(y, map, source, weights)
    wp, wx, ww = wide_of(p, x, w)
    order = np.argsort(-wp.detach().numpy(), axis=1, kind="stable")[:, :2]
    mask = torch.zeros(tokens, count).scatter_(1, torch.from_numpy(order), 1).double()
    assert torch.equal(routed.cpu(), mask.bool())
    wide = wp * mask / (wp * mask).sum(1, keepdim=True)
    near(weights, wide)
    where = rows_of(mask, rows)
    assert counts.tolist() == [(where[:, e] >= 0).sum() for e in range(count)]
    pairs = scattered(where, rows)
    products = torch.einsum("nte,th,ehf->nf", pairs, wx, ww)
    near(y, products)
    # The reference is of what the products were rounded to.
    compared((y,), (products,), (x, w), (wx, ww))
    loss, reference = z, torch.einsum("nte,te,nf->tf", pairs, wide, products)
    if dtype in (torch.float32, torch.float64):
        near(loss, reference)
        compared((loss,), (reference,), (p, x, w), (wp, wx, ww))


def samples():
    """Arguments of each op of the table."""
    mask, probs = routing(SIZES[0])
    p = probs.float()
    map, source, counts, offsets = experts.route_map(mask, 2, 24)
    chunks = torch.tensor([5, 7]), torch.tensor([1, 0])
    d = experts.chunk_map(*chunks, 12)
    x, y = drawn(12, 8, dtype=torch.float32), drawn(24, 8, dtype=torch.float32, seed=1)
    w = drawn(5, 8, 3, dtype=torch.float32, seed=2)
    routed, _ = experts.top_k(p, 2)
    leaf = lambda t: t.clone().requires_grad_()
    return {
        "_top_k": (leaf(p), 2, True),
        "_top_k_grad": (p, routed, p, True),
        "_route_map": (mask, 2, 24, 4),
        "_permute": (x, map, source),
        "_permute_probs": (x, map, source, leaf(p), True),
        "_pair_probs": (y[:, 0].detach(), map, 5),
        "_unpermute": (y, map, source),
        "_unpermute_weighted": (y, map, source, leaf(p)),
        "_unpermute_grad": (y.detach(), map, source, p, x.detach()),
        "_chunk_map": (*chunks, 12),
        "_sort_chunks": (x, d, False),
        "_sort_chunks_probs": (x, d, leaf(p[:, 0]), True),
        "_grouped_matmul": (y, w, counts, offsets),
        "_grouped_matmul_grad": (y.detach(), drawn(24, 3, dtype=torch.float32).detach(), counts, offsets),
    }


OPS = [name for name, op in vars(experts).items() if isinstance(op, experts._Op)]


def test_every_op_of_the_table_has_a_sample():
    assert set(OPS) == set(samples())


@pytest.mark.parametrize("name", OPS)
def test_ops_are_well_made(name):
    op, args = getattr(experts, name), samples()[name]
    plain = [arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args]
    checks = torch.library.opcheck(op._new, plain if name == "_top_k" else args, test_utils="ALL")
    assert set(checks.values()) == {"SUCCESS"}
    assert {"test_autograd_registration", "test_aot_dispatch_static", "test_aot_dispatch_dynamic"} <= checks.keys()
    if name == "_top_k":
        # The others add gradients' results to the first, which here is of truth values: `test_in_torch_compile` has its gradient.
        assert torch.library.opcheck(op._new, args, test_utils="test_autograd_registration")
    made = op(*plain)
    outs = [torch.empty_like(t) for t in (made if isinstance(made, tuple) else (made,))]
    checks = torch.library.opcheck(op._into, (*plain, *outs), test_utils="ALL")
    assert set(checks.values()) == {"SUCCESS"}


def test_the_op_of_a_map_is_well_made():
    checks = torch.library.opcheck(moe._mask_map, (routing(SIZES[0])[0], 24, 2, 4), test_utils="ALL")
    assert set(checks.values()) == {"SUCCESS"}


def test_gradients_are_those_of_differences():
    mask, probs = routing(SIZES[0])
    p, index = probs.clone().requires_grad_(), torch.tensor([[2, 0], [1, 1], [0, 2], [2, 1]])
    x, y, short = drawn(12, 3), drawn(17, 3, seed=1), drawn(4, 3)
    check = torch.autograd.gradcheck
    positive = (probs + 0.5).requires_grad_()
    assert check(lambda x, p: moe.moe_permute_with_probs(x, p, mask, 17)[:2], (x, positive))
    assert check(lambda x: moe.moe_permute(x, mask, 17)[0], (x,))
    row_id_map = moe.moe_permute(x, mask, 17)[1]
    assert check(lambda y: moe.moe_unpermute(y, row_id_map), (y,))
    assert check(lambda y, p: moe.moe_unpermute(y, row_id_map, p), (y, p))
    assert check(lambda x: moe.moe_permute(x, index, 7, map_type="index")[0], (short,))
    indices = moe.moe_permute(short, index, 7, map_type="index")[1]
    assert check(lambda y, p: moe.moe_unpermute(y, indices, p, map_type="index"), (drawn(7, 3), drawn(4, 2, seed=1)))
    counts = mask.sum(0)
    padded = lambda x, p: moe.moe_permute_and_pad_with_probs(x, p, mask, counts, 4)[:2]
    assert check(padded, (x, positive))
    sizes, order = torch.tensor([5, 7]), torch.tensor([1, 0])
    assert check(lambda x: moe.moe_sort_chunks_by_index(x, sizes, order), (x,))
    assert check(lambda x, p: moe.moe_sort_chunks_by_index_with_probs(x, p, sizes, order), (x, drawn(12, seed=4)))
    map, source, counts, offsets = experts.route_map(mask, 2, 17)
    assert check(lambda y, w: experts.grouped_matmul(y, w, counts, offsets), (y, drawn(5, 3, 2, seed=5)))
    distinct = torch.rand(6, 5, dtype=torch.float64).softmax(1).requires_grad_()
    for renormalise in (True, False):
        assert check(lambda p, r=renormalise: experts.top_k(p, 2, r)[1], (distinct,))
    # Moving rows is linear, and has gradients of gradients.
    second = torch.autograd.gradgradcheck
    assert second(lambda x: experts.permute(x, map, source) ** 3, (x,))
    assert second(lambda y: experts.unpermute(y, map, source) ** 3, (y,))
    assert second(lambda x: moe.moe_sort_chunks_by_index(x, sizes, order) ** 3, (x,))


def layer(x, probs, mask, rows):
    y, carried, row_id_map = moe.moe_permute_with_probs(x, probs, mask, rows, most=2)
    return moe.moe_unpermute(y.sin() * carried[:, None], row_id_map, restore_shape=x.shape)


def by_index(x, probs, index, rows):
    y, row_id_map = moe.moe_permute(x, index, rows, map_type="index")
    return moe.moe_unpermute(y.sin(), row_id_map, probs, map_type="index")


def by_landfall_s_names(x, probs, _, rows):
    routed, weights = experts.top_k(probs, 2)
    map, source, counts, offsets = experts.route_map(routed, 2, rows, 4)
    w = torch.ones(5, 8, 8, device=x.device).tril()
    y = experts.grouped_matmul(experts.permute(x, map, source), w, counts, offsets)
    return experts.unpermute(y.sin(), map, source, weights)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", [layer, by_index, by_landfall_s_names], ids=lambda f: f.__name__)
def test_in_torch_compile(function, backend, device):
    """One graph, with gradients, for sizes that vary: the second one makes sizes symbols, and no later one compiles again."""
    if backend == "inductor" and device == "cpu" and shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for tokens in (12, 20, 31, 33):
        mask, probs = routing((tokens, 5, 8, 2, 0), device)
        chosen = mask if function is not by_index else mask.float().topk(2, 1).indices.int()
        p = (probs[:, :2] if function is by_index else probs).float()
        found, wanted = [], []
        for run, kept in ((compiled, found), (function, wanted)):
            x, w = drawn(tokens, 8, dtype=torch.float32, device=device), p.clone().requires_grad_()
            z = run(x, w, chosen, 2 * tokens)
            kept += [z, *torch.autograd.grad(z.square().sum(), (x, w))]
        for a, b in zip(found, wanted):
            # Inductor has sines of its own.
            torch.testing.assert_close(
                a, b, **({"rtol": 0, "atol": 0} if backend == "aot_eager" else {"rtol": 1e-5, "atol": 1e-5})
            )
        if tokens >= 31:
            assert compiled_graphs() == 2
    torch._dynamo.reset()


def compiled_graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def _fresh_counters():
    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("device", DEVICES)
def test_destinations(device):
    mask, probs = routing(SIZES[0], device)
    x, p = torch.randn(12, 8, device=device), probs.float()
    rows, carried = torch.full((24, 8), 9.0, device=device), torch.full((24,), 9.0, device=device)
    wanted = moe.moe_permute_with_probs(x, p, mask, 24)
    found = moe.moe_permute_with_probs(x, p, mask, 24, out=(rows, carried))
    assert found[0] is rows and found[1] is carried
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    # A destination with strides, in memory that goes on.
    wide = torch.zeros(12, 16, device=device)
    assert moe.moe_unpermute(rows, found[2], out=wide[:, ::2]) is not None
    assert torch.equal(wide[:, ::2], moe.moe_unpermute(rows, found[2])) and not wide[:, 1::2].any()
    sizes, order = torch.tensor([5, 7], device=device), torch.tensor([1, 0], device=device)
    y = torch.empty_like(x)
    assert moe.moe_sort_chunks_by_index(x, sizes, order, out=y) is y and torch.equal(y, torch.cat([x[5:], x[:5]]))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def into(x, mask, rows):
        return moe.moe_permute(x * 2, mask, 24, out=rows)[0] + 1

    plain = moe.moe_permute(x * 2, mask, 24)[0]
    assert torch.equal(into(x, mask, rows), plain + 1) and torch.equal(rows, plain)


@pytest.mark.parametrize("device", DEVICES)
def test_a_destination_over_an_argument_is_refused_with_both_ranges(device):
    """A permutation whose input and output are one buffer is wrong without a word elsewhere."""
    x = torch.arange(32.0, device=device).reshape(4, 8)
    mask, kept = torch.eye(4, dtype=torch.int32, device=device).flip(0).contiguous(), x.clone()
    with pytest.raises(lf.AliasError, match=r"permute.*bytes 0\.\.128 and 0\.\.128"):
        moe.moe_permute(x, mask, 4, out=x)
    row_id_map = moe.moe_permute(x, mask, 4)[1]
    with pytest.raises(lf.AliasError, match="unpermute.*bytes"):
        moe.moe_unpermute(x, row_id_map, out=x)
    sizes, order = torch.tensor([1, 3], device=device), torch.tensor([1, 0], device=device)
    with pytest.raises(lf.AliasError, match=r"sort_chunks.*bytes 32\.\.128 and 0\.\.96"):
        moe.moe_sort_chunks_by_index(x[:3], torch.tensor([1, 2], device=device), order, out=x[1:])
    with pytest.raises(lf.AliasError, match="sort_chunks"):
        moe.moe_sort_chunks_by_index(x, sizes, order, out=x)
    assert torch.equal(x, kept)


def test_a_destination_has_no_gradient():
    mask, _ = routing(SIZES[0])
    x, rows = drawn(12, 8, dtype=torch.float32), torch.zeros(24, 8)
    with pytest.raises(lf.ArgumentError, match="permute: out has no gradient"):
        moe.moe_permute(x, mask, 24, out=rows)
    with pytest.raises(lf.ArgumentError, match="permute: out has no gradient"):
        moe.moe_permute(x.detach(), mask, 24, out=rows.clone().requires_grad_())
    with torch.no_grad():
        moe.moe_permute(x, mask, 24, out=rows)
    assert torch.equal(rows, moe.moe_permute(x, mask, 24)[0])


@pytest.mark.parametrize("device", DEVICES)
def test_two_calls_give_the_same_bytes(device):
    sizes = (300, 9, 40, 4, 1000)
    mask, probs = routing(sizes, device)

    def run():
        x, p = drawn(300, 40, dtype=torch.bfloat16, device=device), probs.float().requires_grad_()
        y, carried, row_id_map = moe.moe_permute_with_probs(x, p, mask, 1000)
        z = moe.moe_unpermute(y * carried[:, None].bfloat16(), row_id_map, p)
        return [y, z, *torch.autograd.grad(z.float().square().sum(), (x, p))]

    first = run()
    for _ in range(3):
        assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(first, run()))


def test_no_token_and_no_row():
    mask = torch.zeros(0, 3, dtype=torch.bool)
    x = torch.zeros(0, 2, requires_grad=True)
    y, row_id_map = moe.moe_permute(x, mask, 4)
    assert y.tolist() == [[0, 0]] * 4
    z = moe.moe_unpermute(torch.ones(4, 2), row_id_map)
    assert z.shape == (0, 2)
    y.sum().backward()
    assert x.grad.shape == (0, 2)
    assert moe.moe_permute(x, mask)[0].shape == (0, 2)
    empty, map = moe.moe_permute(x, torch.zeros(0, 2, dtype=torch.int32), map_type="index")
    assert empty.shape == (0, 2) and moe.moe_unpermute(empty, map, torch.ones(0, 2)).shape == (0, 2)
    # Tokens without an expert.
    y, row_id_map = moe.moe_permute(torch.ones(3, 2), torch.zeros(3, 4, dtype=torch.int32), 2)
    assert not y.any() and moe.moe_unpermute(y + 1, row_id_map).tolist() == [[0, 0]] * 3


def test_wrong_calls_are_named():
    mask, probs = routing(SIZES[0])
    x = torch.zeros(12, 8)
    with pytest.raises(lf.ShapeError, match="inp has 3 axes, of sizes"):
        moe.moe_permute(x[None], mask, 24)
    with pytest.raises(lf.ShapeError, match="permute.*12"):
        moe.moe_permute(x[:11], mask, 24)
    with pytest.raises(
        lf.AttributeValueError,
        match='map_type is "sparse"; it must be "mask" or "index"'.replace('"sparse"', "'sparse'"),
    ):
        moe.moe_permute(x, mask, 24, map_type="sparse")
    with pytest.raises(lf.AttributeValueError, match="num_out_tokens is -1; it must be at least 0, or None"):
        moe.moe_permute(x, mask, -1)
    with pytest.raises(lf.AttributeValueError, match="rows is 0; it must be at least 1 where there are tokens"):
        moe.moe_permute(x, mask, 0)
    with pytest.raises(lf.DTypeError, match="route_map.*it must be bool, u8, i32 or i64"):
        moe.moe_permute(x, mask.float(), 24)
    with pytest.raises(lf.ArgumentError, match="most is about masks"):
        moe.moe_permute(x, mask, 24, map_type="index", most=2)
    with pytest.raises(lf.AttributeValueError, match="align_size is 0"):
        moe.moe_permute_and_pad_with_probs(x, probs, mask, mask.sum(0), 0)
    rows, row_id_map = moe.moe_permute(x, mask, 24)
    with pytest.raises(lf.ArgumentError, match="probs is the former name of merging_probs"):
        moe.moe_unpermute(rows, row_id_map, probs, probs=probs)
    with pytest.warns(DeprecationWarning, match="former name"):
        moe.moe_unpermute(rows, row_id_map, probs=probs)
    with pytest.raises(lf.ShapeError, match=r"restore_shape is \(24, 8\); by inp and row_id_map it is \(12, 8\)"):
        moe.moe_unpermute(rows, row_id_map, restore_shape=(24, 8))
    with pytest.raises(lf.ShapeError, match="too small for 900 rows"):
        moe.moe_unpermute(torch.zeros(900, 8), row_id_map)
    with pytest.raises(lf.ShapeError, match=r"unpermute.*12.*11"):
        moe.moe_unpermute(rows, row_id_map, probs[:11])
    with pytest.raises(lf.ArgumentError, match="out has 1 tensors; the call has 2 results"):
        moe.moe_permute_with_probs(x, probs, mask, 24, out=(rows,))
    with pytest.raises(lf.ArgumentError, match="drop_zero is about probabilities"):
        experts.permute(x, *experts.route_map(mask, 2, 24)[:2], drop_zero=True)
    with pytest.raises(lf.IndexOutOfRangeError, match="route_map"):
        moe.moe_permute(x, mask, 24, most=1)
    with pytest.raises(lf.IndexOutOfRangeError, match="chunk_map"):
        moe.moe_sort_chunks_by_index(x, torch.tensor([20, 1]), torch.tensor([1, 0]))


def test_every_name_of_transformer_engine_is_there():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(moe.__all__) == {name for name in vars(moe) if name.startswith("moe_")}


def graph_of(run):
    """A CUDA graph of torch's, after a call outside of it as torch asks."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    return graph, results


@needs_gpu
@pytest.mark.parametrize("kind", ["mask", "index"])
def test_a_captured_graph_of_torch_routes_other_tokens(kind):
    """Forward and backward, replayed with other values and another routing."""
    tokens, count, columns, most = 512, 16, 96, 2
    x = torch.randn(tokens, columns, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    router = torch.randn(tokens, count, device="cuda")

    def run():
        weights, index = router.softmax(1).topk(most, 1)
        if kind == "index":
            rows, map = moe.moe_permute(x, index.int(), tokens * most, map_type="index")
        else:
            mask = torch.zeros_like(router, dtype=torch.bool).scatter(1, index, True)
            weights = router.softmax(1)
            rows, map = moe.moe_permute(x, mask, tokens * most, most=most)
        z = moe.moe_unpermute(rows * 2, map, weights, map_type=kind)
        return z, *torch.autograd.grad(z, x, torch.ones_like(z))

    graph, captured = graph_of(run)
    for _ in range(4):
        with torch.no_grad():
            x.normal_(), router.normal_()
        graph.replay()
        for found, wanted in zip(captured, run()):
            assert torch.equal(found, wanted)
    lf.synchronize("cuda")


@needs_gpu
def test_another_stream_and_destinations_there():
    mask, probs = routing((4096, 32, 64, 4, 0), "cuda")
    x, rows, stream = (
        torch.zeros(4096, 64, device="cuda"),
        torch.empty(4096 * 4, 64, device="cuda"),
        torch.cuda.Stream(),
    )
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(20):
            x.fill_(i + 1)
            _, row_id_map = moe.moe_permute(x, mask, 4096 * 4, most=4, out=rows)
            z = moe.moe_unpermute(rows, row_id_map)
            assert torch.equal(z, mask.sum(1, keepdim=True).float() * (i + 1) * torch.ones_like(z))


@needs_gpu
def test_no_call_waits_for_the_gpu():
    mask, probs = routing((4096, 32, 64, 4, 0), "cuda")
    x, p = torch.randn(4096, 64, device="cuda", requires_grad=True), probs.float().requires_grad_()
    run = lambda: moe.moe_unpermute(*moe.moe_permute_with_probs(x, p, mask, 4096 * 4, most=4)[::2], p).sum().backward()
    run()
    before = lf.counters("cuda")["synchronizations"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert lf.counters("cuda")["synchronizations"] == before
    # What is found is reported when it is asked for.
    moe.moe_permute(x.detach(), mask, 4096 * 4, most=1)
    with pytest.raises(lf.IndexOutOfRangeError):
        lf.synchronize("cuda")
