"""Cases of `parity.py`: products, attention, norms, losses, routing, steps of training. And what has no peer, with the reason."""

import math

import numpy
import torch
from torch.nn import functional as F

from parity_cases import METHOD, row
from parity_engine import DTYPES, HALVES, Arg

# Ops that no row calls by name: they are in the programs of another one, which is checked.
PART_OF = {
    "attention_grad": "attention", "batch_norm_grad": "batch_norm", "cosine_attention_grad": "cosine_attention",
    "cross_entropy_grad": "cross_entropy", "gelu_grad": "gelu", "grouped_matmul_grad": "grouped_matmul",
    "gru_grad": "gru", "l2_norm_grad": "l2_norm", "layer_norm_grad": "layer_norm", "lstm_grad": "lstm", "mae_grad": "mae",
    "masked_attention_grad": "masked_attention", "mse_grad": "mse",
    "pair_probs": "permute", "top_k_grad": "top_k", "unpermute_grad": "unpermute", "bernoulli": "dropout",
}

# What is called where a case is drawn, outside of the row's programs.
DRAWN_WITH = {"bernoulli"}

# Ops, and methods of the graph, that PyTorch has nothing for.
COLLECTIVE = "it needs several ranks: the generated suite has it with one, `tests/collectives.rs` with several"
NO_PEER = {
    **dict.fromkeys(("all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"), COLLECTIVE),
    "advance": "it counts batches in the cursor",
    "advance_micro": "it counts micro-batches in the cursor",
    "composed": "it makes one function of several ops: norms, losses and others, which have rows",
    "entry": "an entry of the state is no function",
    "batch_windows": "windows of an epoch in an order of the engine's own (a keyed bijection)",
    "normal": "as uniform",
    "op1": "it takes any op",
    "ring_push": "it writes into a ring that the host reads",
    "slab": "a slab of the state is no function",
    "uniform": "random numbers of the cursor's counters (Philox), which PyTorch's generators do not draw",
}


def scalar(value, dtype, **how):
    return Arg(torch.tensor(value, dtype=dtype), learned=False, **how)


# Products.


def factors(d):
    lhs, rhs = [d.pick((1, 2, 3, 5)) for _ in range(d.int(0, 2))], []
    if d.chance():
        rhs = [1 if d.chance(0.3) else n for n in lhs[d.int(0, len(lhs)):]]
        lhs = [1 if d.chance(0.3) else n for n in lhs]
    m, k, n = d.size(), d.pick((1, 2, 7, 16, 33, 64, 300)), d.size()
    if not lhs and not rhs:
        # A long inner axis is cut into tasks, and so are many rows.
        m, k, n = d.pick(((m, k, n), (5, 2000, 3), (300, 17, 40), (1, 1600, 1)))
    return [d.tensor(lhs + [m, k]), d.tensor(rhs + [k, n])], {}


def with_bias(d):
    lhs = d.shape(1, 3)
    k, n = d.pick((1, 3, 16, 33, 800)), d.size()
    return [d.tensor(lhs[:2] + [k]), d.tensor([k, n]), d.tensor([n])], {}


# Long sums with much that cancels.
SUMS = dict(bounds=dict(f32=(2e-4, 2e-4)))
row("matmul", factors, torch.matmul, **METHOD, **SUMS)
row("matmul_add", with_bias, lambda x, y, bias: x @ y + bias, **METHOD, **SUMS)


def grouped(d):
    experts, k, n = d.int(1, 5), d.size(), d.size()
    counts = torch.tensor([d.int(0, 6) for _ in range(experts)])
    gaps = torch.tensor([d.int(0, 2) for _ in range(experts)])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), (counts + gaps).cumsum(0)])
    rows = int(offsets[-1]) + d.int(1, 3)
    dtype = d.pick((torch.int32, torch.int64))
    args = [d.tensor([rows, k]), d.tensor([experts, k, n]), Arg(counts.to(dtype)), Arg(offsets.to(dtype))]
    return args, {}


def grouped_matmul(x, w, counts, offsets):
    y = x.new_zeros(x.shape[0], w.shape[2])
    parts = [torch.arange(o, o + c) for c, o in zip(counts.tolist(), offsets.tolist())]
    for expert, rows in enumerate(parts):
        y = y.index_add(0, rows, x[rows] @ w[expert])
    return y


row("grouped_matmul", grouped, grouped_matmul)


# Attention.


def attention(d):
    b, n, h, e = d.int(1, 3), d.pick((1, 2, 5, 8, 17, 33, 70)), d.int(1, 4), d.pick((1, 3, 4, 8, 16, 24))
    previous, emit = d.chance(), d.chance()
    args = [d.tensor([b, n, h, e], broadcast=False) for _ in range(3)] + ([d.tensor([b, h, n, n])] if previous else [])
    return args, dict(scale=d.number(0.1, 0.6), previous=previous, emit_scores=emit), dict(stored=DTYPES[d.dtype])


def as_stored(out, lse, dtype):
    """The result itself. The slopes of its scores are P∘(g·vᵀ − rowsum(g∘out)) with `out` as it is stored (FlashAttention,
    algorithm 4): in 16 bits that rounding is most of the error of a gradient."""
    if dtype == out.dtype:
        return out
    lse = torch.where(lse.isinf(), 0, lse).unsqueeze(-1)
    return out + (lse - lse.detach()) * (out - out.to(dtype)).detach()


def attended(q, k, v, prev=None, scale=1.0, previous=False, emit_scores=False, stored=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = scale * q @ k.transpose(-1, -2) + (prev if previous else 0)
    lse = scores.logsumexp(-1)
    out = as_stored(F.scaled_dot_product_attention(q, k, v, attn_mask=prev, scale=scale), lse, stored).transpose(1, 2)
    return (out, lse.detach(), scores) if emit_scores else (out, lse.detach())


def cosine(d):
    b, n, h, e = d.int(1, 3), d.pick((1, 2, 3, 5, 8, 12)), d.int(1, 4), d.pick((2, 3, 4, 8, 16))
    return [d.tensor([b, n, 3, h, e]), d.tensor([h], 1, 8)], dict(eps=1e-6), dict(stored=DTYPES[d.dtype])


def cosine_attention(qkv, temperature, eps, stored):
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    q, k = (x * (x.square().sum(-1, keepdim=True) + eps).rsqrt() for x in (q, k))
    scores = q @ k.transpose(-1, -2) * temperature.reshape(-1, 1, 1)
    lse = scores.logsumexp(-1)
    return as_stored(scores.softmax(-1) @ v, lse, stored).transpose(1, 2), lse.detach()


def seen(d):
    """Queries, keys and values with grouped heads, a mask or none, lengths or none."""
    b, m, n, e = d.int(1, 3), d.pick((1, 2, 5, 9, 33)), d.pick((1, 3, 8, 17, 70)), d.pick((1, 3, 4, 8, 16, 24))
    groups, repeated = d.int(1, 3), d.int(1, 3)
    heads, mask = groups * repeated, d.pick((None, "bool", d.dtype))
    args = [d.tensor([b, m, heads, e], broadcast=False)]
    args += [d.tensor([b, n, groups, e], broadcast=False) for _ in range(2)]
    args += [d.tensor([b, heads, m, n], dtype=mask)] if mask else []
    lengths = d.chance(0.3)
    args += [d.index([b], n + 1)] if lengths else []
    return args, dict(scale=d.number(0.1, 0.6), causal=d.chance(), mask=mask is not None, lengths=lengths), \
        dict(stored=DTYPES[d.dtype])


def masked_attention(q, k, v, *more, scale, causal, mask, lengths, stored):
    repeated = q.shape[2] // k.shape[2]
    q, k, v = q.transpose(1, 2), *(x.transpose(1, 2).repeat_interleave(repeated, 1) for x in (k, v))
    m, n = q.shape[2], k.shape[2]
    ends = more[-1] if lengths else torch.full([q.shape[0]], n)
    last = ends.reshape(-1, 1, 1, 1) + (torch.arange(m).reshape(-1, 1) - m if causal else -1)
    visible = (torch.arange(n) <= last) & (torch.arange(n) < ends.reshape(-1, 1, 1, 1))
    added = q.new_zeros(q.shape[0], q.shape[1], m, n)
    if mask:
        visible, added = (visible & more[0], added) if more[0].dtype == torch.bool else (visible, added + more[0])
    some = visible.any(-1, keepdim=True)
    added = torch.where(visible | ~some, added, -math.inf)
    out = torch.where(some, F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale), 0)
    lse = torch.where(some.squeeze(-1), (scale * q @ k.transpose(-1, -2) + added).logsumexp(-1), -math.inf)
    return as_stored(out, lse, stored).transpose(1, 2), lse.detach()


def attend(q, k, v, *more, **how):
    return masked_attention(q, k, v, *more, scale=q.shape[-1] ** -0.5, **how)[0]


def without_scale(draw):
    def changed(d):
        args, attributes, aside = draw(d)
        return args, {k: v for k, v in attributes.items() if k != "scale"}, aside
    return changed


def heads_first(d):
    """PyTorch's own axes: heads before tokens, with a mask, causal or neither, values of a width of their own."""
    batch, m, n = [d.int(1, 3) for _ in range(d.int(0, 2))], d.pick((1, 2, 5, 9, 33)), d.pick((1, 3, 8, 17, 70))
    e, f = (d.pick((1, 3, 4, 8, 16, 24)) for _ in range(2))
    groups, grouped = d.int(1, 3), d.chance(0.3)
    heads, mask = groups * (d.int(1, 3) if grouped else 1), d.pick((None, "bool", d.dtype))
    shapes = ([heads, m, e], [groups, n, e], [groups, n, f])
    args = [d.tensor(batch + shape, broadcast=False) for shape in shapes]
    if mask:
        args.append(d.tensor([heads, m, n] if d.chance() else [m, n], dtype=mask))
        # A row that sees nothing is NaN in PyTorch.
        if mask == "bool":
            args[-1].value(args[-1].leaf)[..., 0] = True
    attributes = dict(is_causal=mask is None and d.chance(), enable_gqa=grouped)
    attributes.update(dict(scale=d.number(0.1, 0.6)) if d.chance() else {})
    return args, attributes, dict(stored=DTYPES[d.dtype])


def scaled_dot_product_attention(q, k, v, mask=None, is_causal=False, enable_gqa=False, scale=None, stored=None):
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, enable_gqa=enable_gqa, scale=scale)
    if stored == out.dtype:
        return out
    keys = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = (scale or q.shape[-1] ** -0.5) * q @ keys.transpose(-1, -2)
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if is_causal else mask
    if visible is not None:
        scores = torch.where(visible, scores, -math.inf) if visible.dtype == torch.bool else scores + visible
    return as_stored(out, scores.logsumexp(-1), stored)


row("attention", attention, attended, wide=(1,))
row("masked_attention", seen, masked_attention, wide=(1,))
row("attend", without_scale(seen), attend, **METHOD)
row("scaled_dot_product_attention", heads_first, scaled_dot_product_attention,
    note="queries that see no key: PyTorch's are NaN", **METHOD)
row("cosine_attention", cosine, cosine_attention, wide=(1,), bounds=dict(f32=(1e-5, 1e-4)))


# Norms.


def normed(least):
    def draw(d):
        while math.prod((shape := d.shape())[:-1]) < least or shape[-1] < 2:
            pass
        return [d.tensor(shape, broadcast=False)] + [d.tensor(shape[-1:]) for _ in range(2)], dict(eps=1e-5)
    return draw


def layer_norm(x, weight, bias, eps):
    y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
    return y, mean.detach().squeeze(-1), rstd.detach().squeeze(-1)


def batch_norm(x, weight, bias, eps):
    rows = x.reshape(-1, x.shape[-1])
    # Of a weight that is a view with gaps PyTorch 2.15 computes a wrong gradient.
    y = F.batch_norm(rows, None, None, weight.contiguous(), bias, training=True, eps=eps).reshape(x.shape)
    return y, rows.mean(0).detach(), rows.var(0, correction=0).detach()


def lengths(d):
    shape, scaled = d.shape(), d.chance()
    return [d.tensor(shape)] + ([d.tensor(shape[:-1])] if scaled else []), dict(eps=1e-6, scaled=scaled)


def l2_norm(x, scale=None, eps=0.0, scaled=False):
    y = x / (x.square().sum(-1, keepdim=True) + eps).sqrt()
    return y * scale.unsqueeze(-1) if scaled else y


def running(d):
    shape = d.shape(0, 2)
    args = [d.tensor(shape, plain=True, state=True), d.tensor(shape), scalar(d.chance(0.8), torch.bool)]
    return args, dict(momentum=d.number(0, 1), unbiased_count=d.pick((None, 1, 2, 9)))


def running_update(old, batch, ok, momentum, unbiased_count):
    n = unbiased_count
    return old.lerp(batch * (n / (n - 1) if n and n > 1 else 1), momentum) if ok else old


# Of elements that are close to each other, rounding counts 1/√eps times.
CLOSE = dict(bounds=dict(f64=(1e-12, 1e-10), f32=(1e-5, 1e-3)), note="rows of equal elements")
row("layer_norm", normed(1), layer_norm, wide=(1, 2), **CLOSE)
row("batch_norm", normed(2), batch_norm, wide=(1, 2), **CLOSE)
row("l2_norm", lengths, l2_norm)
row("running_update", running, running_update, smooth=False)


# Losses.


def labelled(d):
    shape = d.shape()
    return [d.tensor(shape, -9, 9), d.index(shape[:-1], shape[-1])], {}


def cross_entropy(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def pair(d):
    shape = d.shape(0)
    return [d.tensor(shape), d.tensor(shape)], {}


row("mse", pair, F.mse_loss)
row("mae", pair, F.l1_loss)
row("cross_entropy", labelled, cross_entropy)


# Routing of tokens to experts.


def route(d):
    """A routing, and the map of its rows as `route_map` gives it."""
    tokens, experts = d.int(1, 9), d.int(1, 5)
    most, align = d.int(1, experts), d.pick((1, 1, 2, 4))
    routed = torch.zeros(tokens, experts, dtype=torch.bool)
    for t in range(tokens):
        routed[t, torch.tensor(d.rng.permutation(experts)[: d.int(0, most)])] = True
    counts = routed.sum(0)
    ends = ((counts + align - 1) // align * align).cumsum(0)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), ends])
    rows = max(int(ends[-1]), 1) + d.int(0, 2)
    row_of = offsets[:-1] + routed.cumsum(0) - 1
    table, source = torch.full((tokens, 2 * most + 1), -1), torch.full((rows,), -1)
    for t in range(tokens):
        chosen = routed[t].nonzero().flatten().flip(0)
        for j, e in enumerate(chosen.tolist()):
            table[t, j], table[t, most + j] = row_of[t, e], e
            source[row_of[t, e]] = t * most + j
        table[t, -1] = len(chosen)
    return dict(routed=routed, most=most, align=align, rows=rows, row_of=row_of, results=(table, source, counts, offsets))


def mapped(d):
    r = route(d)
    index = d.pick(("i32", "i64"))
    dtype = torch.int32 if index == "i32" else torch.int64
    attributes = dict(most=r["most"], rows=r["rows"], align=r["align"], index=index)
    given = d.pick((torch.bool, torch.uint8, torch.int32, torch.int64))
    return [Arg(r["routed"].to(given))], attributes, dict(wanted=[x.to(dtype) for x in r["results"]])


def permuted(d):
    r, probs = route(d), d.chance()
    table, source = (Arg(x.to(torch.int32)) for x in r["results"][:2])
    x = d.tensor([len(r["routed"]), d.size()])
    more = [d.tensor(list(r["routed"].shape), 0.1, 1)] if probs else []
    return [x, table, source] + more, dict(probs=probs), r


def permute(x, table, source, p=None, probs=False, routed=None, row_of=None, rows=0, **_):
    tokens, experts = routed.nonzero(as_tuple=True)
    at = row_of[tokens, experts]
    y = x.new_zeros(rows, x.shape[1]).index_copy(0, at, x[tokens])
    return (y, x.new_zeros(rows).index_copy(0, at, p[tokens, experts])) if probs else y


def unpermuted(d):
    r = route(d)
    table, source = (Arg(x.to(torch.int64)) for x in r["results"][:2])
    y = d.tensor([r["rows"], d.size()])
    more = [d.tensor(list(r["routed"].shape))] if d.chance() else []
    return [y, table, source] + more, {}, r


def unpermute(y, table, source, w=None, routed=None, row_of=None, **_):
    tokens, experts = routed.nonzero(as_tuple=True)
    rows = y[row_of[tokens, experts]]
    rows = rows if w is None else rows * w[tokens, experts].unsqueeze(-1)
    return y.new_zeros(len(routed), y.shape[1]).index_add(0, tokens, rows)


def top(d):
    tokens, experts = d.size(), d.size()
    p = d.tensor([tokens, experts], 0.05, 1, broadcast=False)
    if d.dtype in HALVES:
        # Random numbers of 16 bits are often equal.
        rows = [d.rng.permutation(61)[:experts] for _ in range(tokens)]
        p.value(p.leaf).copy_(torch.tensor(numpy.array(rows) + 4) / 64)
    return [p], dict(k=d.int(1, experts), renormalise=d.chance())


def top_k(p, k, renormalise):
    routed = torch.zeros(p.shape, dtype=torch.bool).scatter(1, p.topk(k).indices, True)
    weights = torch.where(routed, p, 0)
    return routed, weights / weights.sum(1, keepdim=True) if renormalise else weights


def chunks(d):
    sizes = [d.int(0, 4) for _ in range(d.int(1, 6))]
    order = [int(i) for i in d.rng.permutation(len(sizes))]
    rows = sum(sizes) + d.int(0, 2)
    parts = list(torch.arange(rows).split(sizes + [rows - sum(sizes)]))
    source = torch.cat([parts[i] for i in order] + parts[-1:])
    return sizes, order, rows, source.argsort()


def chunk_map(d):
    sizes, order, rows, place = chunks(d)
    dtype = d.pick((torch.int32, torch.int64))
    given = [Arg(torch.tensor(x, dtype=dtype)) for x in (sizes, order)]
    return given, dict(rows=max(rows, 1)), dict(place=(place if rows else torch.zeros(1)).to(dtype))


def sorted_chunks(d):
    place, probs = chunks(d)[3], d.chance()
    x = d.tensor([len(place), d.size()])
    return [x, Arg(place.to(torch.int32))] + ([d.tensor([len(place)])] if probs else []), \
        dict(probs=probs, inverse=d.chance())


def sort_chunks(x, place, p=None, probs=False, inverse=False):
    order = place.long() if inverse else place.long().argsort()
    return (x[order], p[order]) if probs else x[order]


row("route_map", mapped, lambda routed, wanted, **_: wanted, smooth=False)
row("permute", permuted, permute)
row("unpermute", unpermuted, unpermute)
row("top_k", top, top_k, note="of distinct probabilities")
row("chunk_map", chunk_map, lambda sizes, order, rows, place: place, smooth=False)
row("sort_chunks", sorted_chunks, sort_chunks)


# Steps of training.


def dropped(d):
    shape, rate, stream, cursor = d.shape(0), d.pick((0.0, 0.25, 0.5, 0.9)), d.int(0, 5), d.cursor(d.int(0, 9))
    mask = d.engine.call("bernoulli", False, dict(shape=shape, keep=1 - rate, stream=stream), [cursor])[0][0]
    return [d.tensor(shape), cursor], dict(rate=rate, stream=stream), dict(mask=mask)


def adam(d):
    n, step, dtype = d.pick((1, 7, 40, 300)), d.int(0, 20), d.dtype
    state = dict(plain=True, state=True)
    # Moments and the scale of the gradients are not kept in 16 bits.
    wide = "f32" if dtype in HALVES else dtype
    args = [d.tensor([n], **state), d.tensor([n]), d.tensor([n], dtype=wide, **state),
            d.tensor([n], 0, 3, dtype=wide, **state), d.cursor(step), scalar(d.number(1e-4, 1e-2), torch.float64),
            d.tensor([], 0.1, 1, dtype=wide), scalar(d.chance(0.8), torch.bool)]
    return args, dict(beta1=d.number(0.8, 0.95), beta2=d.number(0.9, 0.999), eps=1e-8, weight_decay=d.pick((0.0, 0.1)),
                      decoupled=d.chance(), decay_elements=d.int(0, n + 3))


def adam_step(param, grad, m, v, cursor, lr, scale, ok, beta1, beta2, eps, weight_decay, decoupled, decay_elements):
    if not ok:
        return param, m, v
    parts = [slice(0, decay_elements), slice(decay_elements, None)]
    parts = [(p, decay) for p, decay in zip(parts, (weight_decay, 0)) if len(param[p])]
    groups = [dict(params=[param[p].detach().clone()], weight_decay=decay) for p, decay in parts]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind(groups, lr=lr.item(), betas=(beta1, beta2), eps=eps)
    for group, (p, _) in zip(groups, parts):
        x, = group["params"]
        x.grad = (grad * scale)[p].detach().clone()
        step = torch.tensor(float(cursor[0]))
        optimizer.state[x] = dict(step=step, exp_avg=m[p].clone(), exp_avg_sq=v[p].clone())
    optimizer.step()
    state = [optimizer.state[group["params"][0]] for group in groups]
    return (torch.cat([group["params"][0] for group in groups]), torch.cat([s["exp_avg"] for s in state]),
            torch.cat([s["exp_avg_sq"] for s in state]))


def loss_scale(state, ok, interval, growth, backoff, least):
    scale, run = state[:1].clone(), state[1:].int()
    torch._amp_update_scale_(scale, run, (~ok).float(), growth, backoff, interval)
    return torch.stack([scale.clamp(min=least)[0], run[0].float()])


def summed(d):
    groups, columns, rows = d.int(1, 5), d.size(), d.size()
    return [d.tensor([groups, columns], plain=True, state=True), d.index([rows], groups), d.tensor([rows, columns])], {}


def assigned(d):
    shape = d.shape(0)
    return [d.tensor(shape, plain=True, state=True), d.tensor(shape), d.tensor(shape, dtype="bool")], {}


def assigned_rows(d):
    shape = d.shape(1)
    axis = d.int(0, len(shape) - 1)
    rows = d.int(1, shape[axis])
    part = [rows if a == axis else size for a, size in enumerate(shape)]
    start = d.int(0, shape[axis] - rows)
    return [d.tensor(shape, plain=True, state=True), d.tensor(part), d.tensor([], start, start, dtype="i64")], \
        dict(axis=axis)


def write_rows(target, rows, start, axis):
    target = target.clone()
    target.narrow(axis, int(start), rows.shape[axis]).copy_(rows)
    return target


def averaged(d):
    shape, n = d.shape(0), d.int(1, 5)
    return [d.tensor(shape, plain=True, state=True), d.tensor(shape), d.cursor(micro=d.int(0, n - 1))], \
        dict(micro_batches=n)


def gathered_windows(d):
    channels, length, batch, stride, offset = d.size(), d.int(1, 6), d.size(), d.int(1, 3), d.int(0, 3)
    starts = d.index([batch], 9)
    time = 8 * stride + offset + length + d.int(0, 3)
    return [d.tensor([channels, time]), starts], \
        dict(stride=stride, offset=offset, length=length, width=length + d.int(0, 3))


def window_gather(series, starts, stride, offset, length, width):
    cut = [series.narrow(1, s * stride + offset, length) for s in starts.tolist()]
    return F.pad(torch.stack(cut), (0, width - length))


def finite(d):
    made = d.tensor(d.shape(0))
    if d.chance(0.3) and made.leaf.numel():
        made.leaf.view(-1)[d.int(0, made.leaf.numel() - 1)] = d.pick((math.nan, math.inf, -math.inf))
    return made


row("dropout", dropped, lambda x, cursor, rate, stream, mask: x * mask.to(x.dtype) / (1 - rate),
    note="with the engine's own mask, of `bernoulli`")
row("adam", adam, adam_step, smooth=False, rounds=False, wide=(1, 2),
    note="one step of torch.optim.Adam or AdamW")
row("clip_scale", lambda d: ([d.tensor(d.shape(0), 0, 5)], dict(max=d.number(0.5, 3))),
    lambda norm, max: (max / (norm + 1e-6)).clamp(max=1), smooth=False, note="as in torch.nn.utils.clip_grad_norm_")
row("all_finite", lambda d: ([finite(d) for _ in range(d.int(1, 3))], {}),
    lambda *all: torch.stack([x.isfinite().all() for x in all]).all(), smooth=False)
row("loss_scale", lambda d: ([Arg(torch.tensor([2.0 ** d.int(0, 16), float(d.int(0, 3))]), state=True),
                              scalar(d.chance(), torch.bool)],
                             dict(interval=d.int(4, 5), growth=2.0, backoff=0.5, least=0.5)),
    loss_scale, dtypes=("f32",), smooth=False, rounds=False, note="as torch.amp.GradScaler's")
row("accumulate", summed, lambda sums, groups, values: sums.index_add(0, groups, values), dtypes=("f64",), smooth=False)
row("assign", assigned, lambda target, value, ok: torch.where(ok, value, target), smooth=False)
row("assign_rows", assigned_rows, write_rows, smooth=False)
row("micro_batch_mean", averaged, lambda mean, value, cursor, micro_batches:
    (mean if cursor[6] > 0 else 0) + value / micro_batches, smooth=False)
row("lookup", lambda d: ([d.tensor([n := d.size()]), d.cursor(d.int(0, n + 2))], {}),
    lambda table, cursor: table[min(int(cursor[0]), len(table) - 1)], dtypes=("f64",), smooth=False)
row("window_gather", gathered_windows, window_gather, smooth=False)
