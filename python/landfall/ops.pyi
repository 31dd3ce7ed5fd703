"""Every op of the engine: `ops.softmax(x, axis=-1, out=y)`."""

# Written by stubs.py from the op table.

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

from ._landfall import Array, DTypeLike, Tensor

Out = TypeVar("Out")

__all__ = ["abs", "accumulate", "adam", "add", "advance", "advance_micro", "affine", "all_finite", "all_gather", "all_reduce", "all_to_all", "assign", "assign_rows", "attention", "attention_grad", "batch_norm", "batch_norm_grad", "batch_windows", "bernoulli", "broadcast", "cast", "ceil", "chunk_map", "clamp", "clip_scale", "compare", "concat", "copy", "cos", "cosine_attention", "cosine_attention_grad", "cross_entropy", "cross_entropy_grad", "cumsum", "div", "dropout", "erf", "exp", "expm1", "fill", "floor", "fold", "gather", "gelu", "gelu_grad", "global_norm", "grouped_matmul", "grouped_matmul_grad", "gru", "gru_grad", "iota", "l2_norm", "l2_norm_grad", "layer_norm", "layer_norm_grad", "leaky_relu", "ln", "log1p", "lookup", "loss_scale", "lstm", "lstm_grad", "mae", "mae_grad", "masked_attention", "masked_attention_grad", "matmul", "max", "maximum", "mean", "micro_batch_mean", "min", "minimum", "mse", "mse_grad", "mul", "neg", "pack", "pad", "pad_edge", "pair_probs", "permute", "pow", "prod", "recip", "reduce_scatter", "relu", "rem", "ring_push", "round", "route_map", "rsqrt", "running_update", "scatter_add", "sigmoid", "sign", "silu", "sin", "softmax", "softplus", "sort", "sort_chunks", "sqrt", "sub", "sum", "swiglu", "tanh", "top_k", "top_k_grad", "uniform", "unpermute", "unpermute_grad", "where", "window_gather"]

@overload
def abs(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = |x|`. Gradient: `cotangent · sign x`, 0 at 0."""
    ...

@overload
def abs(x: Array | float, /, *, out: Out) -> Out: ...

def accumulate(sums: Array, groups: Array, values: Array, /, *, out: Any = None) -> Any:
    r"""`sums[groups[b], c] ← sums[groups[b], c] + values[b, c]`, for `b` from first to last."""
    ...

def adam(param: Array, grad: Array, m: Array, v: Array, cursor: Array, lr: Array, scale: Array, ok: Array, /, *, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, weight_decay: float = 0.0, decoupled: bool = False, decay_elements: int = 9223372036854775807, out: Any = None) -> Any:
    r"""One step of Adam with bias correction, number `t = STEP + 1`. With `g = grad · scale`:"""
    ...

@overload
def add(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs + rhs`. Gradients: `cotangent` and `cotangent`."""
    ...

@overload
def add(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

def advance(cursor: Array, ok: Array, /, *, batches: int, out: Any = None) -> Any:
    r"""The next cursor: with `ok`, `STEP += 1`, `BATCH += 1`, and when `BATCH` reaches `batches`, `BATCH = 0` and `EPOCH += 1`; else the cursor as it is, so that a step that overflowed is as if it had not been."""
    ...

def advance_micro(cursor: Array, /, *, micro_batches: int, out: Any = None) -> Any:
    r"""The cursor of the next micro-batch: `MICRO ← MICRO + 1`, after the rank's last its first again: a multiple of `micro_batches`."""
    ...

@overload
def affine(x: Array | float, /, *, mul: float = 1.0, add: float = 0.0, out: None = None) -> Tensor:
    r"""`out = x · mul + add` with constants."""
    ...

@overload
def affine(x: Array | float, /, *, mul: float = 1.0, add: float = 0.0, out: Out) -> Out: ...

@overload
def all_finite(*x: Array, out: None = None) -> Tensor:
    r"""`out = 1` if every element of every argument is finite, else 0."""
    ...

@overload
def all_finite(*x: Array, out: Out) -> Out: ...

@overload
def all_gather(x: Array, /, *, ranks: int, out: None = None) -> Tensor:
    r"""`out[r·n + i, ..] = xᵣ[i, ..]`: the tensors of all ranks along the first axis, in the order of the ranks."""
    ...

@overload
def all_gather(x: Array, /, *, ranks: int, out: Out) -> Out: ...

@overload
def all_reduce(x: Array, /, *, reduction: Literal["sum", "mean", "max", "min", "prod"] = 'sum', out: None = None) -> Tensor:
    r"""`out[i] = x₀[i] ∘ x₁[i] ∘ … ` over the ranks' tensors: sum, mean, maximum, minimum or product. Every rank gets the same bytes."""
    ...

@overload
def all_reduce(x: Array, /, *, reduction: Literal["sum", "mean", "max", "min", "prod"] = 'sum', out: Out) -> Out: ...

@overload
def all_to_all(x: Array, /, *, ranks: int, out: None = None) -> Tensor:
    r"""`out[s·n + i, ..] = xₛ[r·n + i, ..]` on rank r: block r of every rank s, in the order of the ranks."""
    ...

@overload
def all_to_all(x: Array, /, *, ranks: int, out: Out) -> Out: ...

def assign(target: Array | float, value: Array | float, ok: Array | float, /, *, out: Any = None) -> Any:
    r"""`target ← value` where `ok` holds; elsewhere it keeps its contents."""
    ...

def assign_rows(target: Array, rows: Array, start: Array, /, *, axis: int, out: Any = None) -> Any:
    r"""`target[.., start + j, ..] ← rows[.., j, ..]` along an axis; the other rows keep their contents."""
    ...

@overload
def attention(q: Array, k: Array, v: Array, prev: Array | None = None, /, *, scale: float | None = None, previous: bool = False, emit_scores: bool = False, out: None = None) -> tuple[Tensor, ...]:
    r"""`out = softmax(S)·v` over the keys, `S = scale·q·kᵀ (+ prev)`, for each batch entry and head."""
    ...

@overload
def attention(q: Array, k: Array, v: Array, prev: Array | None = None, /, *, scale: float | None = None, previous: bool = False, emit_scores: bool = False, out: Out) -> Out: ...

@overload
def attention_grad(q: Array, k: Array, v: Array, prev: Array | None = None, out_: Array | None = None, lse: Array | None = None, g_out: Array | None = None, g_scores: Array | None = None, /, *, scale: float | None = None, previous: bool = False, score_cotangent: bool = False, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `Attention`. The scores `S` are computed again, tile by tile; then `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out)) (+ g_scores)`, `gq = scale·dS·k`, `gk = scale·dSᵀ·q`, `gv = Pᵀ·g_out` and, with `previous`, `g_prev = dS`."""
    ...

@overload
def attention_grad(q: Array, k: Array, v: Array, prev: Array | None = None, out_: Array | None = None, lse: Array | None = None, g_out: Array | None = None, g_scores: Array | None = None, /, *, scale: float | None = None, previous: bool = False, score_cotangent: bool = False, out: Out) -> Out: ...

@overload
def batch_norm(x: Array, weight: Array, bias: Array, /, *, eps: float = 1e-05, out: None = None) -> tuple[Tensor, ...]:
    r"""Training-mode batch normalisation: `y = (x − mean)/√(variance + eps)·weight + bias` with the mean and the biased variance of each feature over all rows."""
    ...

@overload
def batch_norm(x: Array, weight: Array, bias: Array, /, *, eps: float = 1e-05, out: Out) -> Out: ...

@overload
def batch_norm_grad(gy: Array, x: Array, weight: Array, mean: Array, variance: Array, /, *, eps: float = 1e-05, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `BatchNorm`: with `h = (x − mean)/√(variance + eps)` and `n` rows, `gbias = Σ gy`, `gweight = Σ gy·h` and `gx = weight/√(variance + eps)·(gy − gbias/n − h·gweight/n)`."""
    ...

@overload
def batch_norm_grad(gy: Array, x: Array, weight: Array, mean: Array, variance: Array, /, *, eps: float = 1e-05, out: Out) -> Out: ...

@overload
def batch_windows(cursor: Array, table: Array, list: Array | None = None, /, *, batch: int, micro_batches: int = 1, order: Literal["sequential", "shuffled", "listed"], out: None = None) -> tuple[Tensor, ...]:
    r"""The windows of a micro-batch: element `j` is position `p = (BATCH · micro_batches + MICRO) · batch + j` of the epoch. If `p < WINDOWS`, it is valid and its window is number `w = BASE + σ(p)`: σ is the identity, the keyed bijection of (SEED, EPOCH) on `0..WINDOWS`, or what the list has for (EPOCH mod E, p), brought into `0..WINDOWS` (p itself where it has nothing). Else it is `w = BASE + WINDOWS − 1` (a window that is there to be read) and it is not valid."""
    ...

@overload
def batch_windows(cursor: Array, table: Array, list: Array | None = None, /, *, batch: int, micro_batches: int = 1, order: Literal["sequential", "shuffled", "listed"], out: Out) -> Out: ...

@overload
def bernoulli(cursor: Array, /, *, shape: int | Sequence[int], keep: float, stream: int = 0, out: None = None) -> Tensor:
    r"""`out_i = 1` with probability `keep`, else 0, each on its own."""
    ...

@overload
def bernoulli(cursor: Array, /, *, shape: int | Sequence[int], keep: float, stream: int = 0, out: Out) -> Out: ...

@overload
def broadcast(x: Array, /, *, root: int, out: None = None) -> Tensor:
    r"""`out[i] = x_root[i]`: every rank gets the tensor of one."""
    ...

@overload
def broadcast(x: Array, /, *, root: int, out: Out) -> Out: ...

@overload
def cast(x: Array | float, /, *, dtype: DTypeLike, out: None = None) -> Tensor:
    r"""`out = x` in another dtype: to floats rounded to nearest; floats to integers truncated, saturated, NaN as 0; integers to narrower integers modulo 2^bits; to bool `x ≠ 0`."""
    ...

@overload
def cast(x: Array | float, /, *, dtype: DTypeLike, out: Out) -> Out: ...

@overload
def ceil(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = ⌈x⌉`: the smallest integer that is not less. Gradient: 0."""
    ...

@overload
def ceil(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def chunk_map(sizes: Array, order: Array, /, *, rows: int, out: None = None) -> Tensor:
    r"""Where each row goes when chunks of rows change their order: chunk j of the result is chunk `order[j]` of the input, so `D(r)` = the first row of r's chunk in the result + r's place in the chunk. Rows behind the last chunk stay: `D(r) = r`."""
    ...

@overload
def chunk_map(sizes: Array, order: Array, /, *, rows: int, out: Out) -> Out: ...

@overload
def clamp(x: Array | float, /, *, low: float = ..., high: float = ..., out: None = None) -> Tensor:
    r"""`out = min(max(x, low), high)`; NaN stays NaN."""
    ...

@overload
def clamp(x: Array | float, /, *, low: float = ..., high: float = ..., out: Out) -> Out: ...

@overload
def clip_scale(norm: Array | float, /, *, max: float, out: None = None) -> Tensor:
    r"""`out = min(1, max / (norm + 10⁻⁶))`: what gradients are multiplied by so that their norm is at most `max`."""
    ...

@overload
def clip_scale(norm: Array | float, /, *, max: float, out: Out) -> Out: ...

@overload
def compare(lhs: Array | float, rhs: Array | float, /, *, comparison: Literal["equal", "less", "less_equal", "not_equal", "greater", "greater_equal"], out: None = None) -> Tensor:
    r"""`out = lhs (=, <, ≤, ≠, >, ≥) rhs` as bool, integers exactly. Comparisons with NaN are false, `≠` is true."""
    ...

@overload
def compare(lhs: Array | float, rhs: Array | float, /, *, comparison: Literal["equal", "less", "less_equal", "not_equal", "greater", "greater_equal"], out: Out) -> Out: ...

@overload
def concat(*x: Array, axis: int = 0, out: None = None) -> Tensor:
    r"""The arguments behind each other along one axis: `out[.., n_0 + … + n_(k−1) + i, ..] = x_k[.., i, ..]`."""
    ...

@overload
def concat(*x: Array, axis: int = 0, out: Out) -> Out: ...

@overload
def copy(x: Array, /, *, out: None = None) -> Tensor:
    r"""`out = x`, row-major without gaps."""
    ...

@overload
def copy(x: Array, /, *, out: Out) -> Out: ...

@overload
def cos(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = cos x`, in radians. Gradient: `−cotangent · sin x`."""
    ...

@overload
def cos(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def cosine_attention(qkv: Array, temperature: Array, /, *, eps: float = 1e-06, out: None = None) -> tuple[Tensor, ...]:
    r"""`out = softmax(S)·v` over the keys, for each batch entry and head, with `S = t·q̂·k̂ᵀ`, `q̂ = q / √(Σ q² + eps)` and `k̂ = k / √(Σ k² + eps)`: cosines of the angles between queries and keys, times a temperature."""
    ...

@overload
def cosine_attention(qkv: Array, temperature: Array, /, *, eps: float = 1e-06, out: Out) -> Out: ...

@overload
def cosine_attention_grad(qkv: Array, temperature: Array, out_: Array, lse: Array, g_out: Array, /, *, eps: float = 1e-06, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `CosineAttention`. The scores `S = t·q̂·k̂ᵀ` are computed again; then `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out))`, `u = dS·k̂`, `w = t·dSᵀ·q̂`, and, row by row, `gq = t·(u − q̂·Σ u·q̂) / √(Σ q² + eps)`, `gk = (w − k̂·Σ w·k̂) / √(Σ k² + eps)`, `gv = Pᵀ·g_out`; of each head `g_t = Σ u·q̂`."""
    ...

@overload
def cosine_attention_grad(qkv: Array, temperature: Array, out_: Array, lse: Array, g_out: Array, /, *, eps: float = 1e-06, out: Out) -> Out: ...

@overload
def cross_entropy(logits: Array, labels: Array, /, *, out: None = None) -> Tensor:
    r"""Mean cross-entropy: `out = (1/rows) Σ_r (ln Σ_k exp(logits[r, k]) − logits[r, labels[r]])`."""
    ...

@overload
def cross_entropy(logits: Array, labels: Array, /, *, out: Out) -> Out: ...

@overload
def cross_entropy_grad(logits: Array, labels: Array, cotangent: Array, /, *, out: None = None) -> Tensor:
    r"""Gradient of `CrossEntropy` to the logits: `out[r, k] = (exp(logits[r, k]) / Σ_j exp(logits[r, j]) − [k = labels[r]]) · cotangent / rows`."""
    ...

@overload
def cross_entropy_grad(logits: Array, labels: Array, cotangent: Array, /, *, out: Out) -> Out: ...

@overload
def cumsum(x: Array, /, *, axis: int, reverse: bool = False, out: None = None) -> Tensor:
    r"""`out[.., i, ..] = Σ_{j ≤ i} x[.., j, ..]` along an axis; in `reverse` `Σ_{j ≥ i}`."""
    ...

@overload
def cumsum(x: Array, /, *, axis: int, reverse: bool = False, out: Out) -> Out: ...

@overload
def div(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs / rhs`. Gradients: `cotangent / rhs` and `−cotangent · out / rhs`."""
    ...

@overload
def div(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def dropout(x: Array, cursor: Array, /, *, rate: float = 0.5, stream: int = 0, out: None = None) -> Tensor:
    r"""`out_i = x_i / (1 − rate)` with probability `1 − rate`, else 0."""
    ...

@overload
def dropout(x: Array, cursor: Array, /, *, rate: float = 0.5, stream: int = 0, out: Out) -> Out: ...

@overload
def erf(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = 2/√π · ∫₀ˣ e^(−t²) dt`. Gradient: `cotangent · 2/√π · e^(−x²)`."""
    ...

@overload
def erf(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def exp(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = eˣ`. Gradient: `cotangent · out`."""
    ...

@overload
def exp(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def expm1(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = eˣ − 1`, accurate near 0. Gradient: `cotangent · eˣ`."""
    ...

@overload
def expm1(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def fill(*, spec: str | tuple[DTypeLike, int | Sequence[int]], value: float, out: None = None) -> Tensor:
    r"""`out = value` everywhere."""
    ...

@overload
def fill(*, spec: str | tuple[DTypeLike, int | Sequence[int]], value: float, out: Out) -> Out: ...

@overload
def floor(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = ⌊x⌋`: the largest integer that is not greater. Gradient: 0."""
    ...

@overload
def floor(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def fold(x: Array, /, *, size: int, step: int, length: int, out: None = None) -> Tensor:
    r"""The adjoint of `unfold`: `out[.., i] = Σ x[.., w, j]` over all windows `w` and positions `j` with `w·step + j = i`."""
    ...

@overload
def fold(x: Array, /, *, size: int, step: int, length: int, out: Out) -> Out: ...

@overload
def gather(x: Array, index: Array, /, *, axis: int, rows: bool | None = None, out: None = None) -> Tensor:
    r"""Elements of `x` by index along an axis."""
    ...

@overload
def gather(x: Array, index: Array, /, *, axis: int, rows: bool | None = None, out: Out) -> Out: ...

@overload
def gelu(x: Array | float, /, *, approximation: Literal["erf", "tanh"] = 'erf', out: None = None) -> Tensor:
    r"""`out = x·Φ(x)`, Φ the normal distribution function, exact or by its tanh approximation."""
    ...

@overload
def gelu(x: Array | float, /, *, approximation: Literal["erf", "tanh"] = 'erf', out: Out) -> Out: ...

@overload
def gelu_grad(x: Array | float, cotangent: Array | float, /, *, approximation: Literal["erf", "tanh"] = 'erf', out: None = None) -> Tensor:
    r"""Gradient of `Gelu`: `out = cotangent·(Φ(x) + x·Φ′(x))`."""
    ...

@overload
def gelu_grad(x: Array | float, cotangent: Array | float, /, *, approximation: Literal["erf", "tanh"] = 'erf', out: Out) -> Out: ...

@overload
def global_norm(x: Array, /, *, out: None = None) -> Tensor:
    r"""`out = √(Σ xᵢ²)`."""
    ...

@overload
def global_norm(x: Array, /, *, out: Out) -> Out: ...

@overload
def grouped_matmul(x: Array, w: Array, counts: Array, offsets: Array, /, *, out: None = None) -> Tensor:
    r"""`y[r, :] = x[r, :] · w[e(r)]`, where e(r) is the expert whose row r is: expert e has the rows `offsets[e]` up to `offsets[e] + counts[e]`. Other rows are zero."""
    ...

@overload
def grouped_matmul(x: Array, w: Array, counts: Array, offsets: Array, /, *, out: Out) -> Out: ...

@overload
def grouped_matmul_grad(x: Array, gy: Array, counts: Array, offsets: Array, /, *, out: None = None) -> Tensor:
    r"""Gradient of `GroupedMatMul` to the experts' matrices: `out[e] = Σ_r x[r, :]ᵀ · gy[r, :]` over the rows of e, zeros where it has none."""
    ...

@overload
def grouped_matmul_grad(x: Array, gy: Array, counts: Array, offsets: Array, /, *, out: Out) -> Out: ...

@overload
def gru(x: Array, h0: Array, weight: Array, bias: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""A recurrent layer over time, from the gates' inputs on. With `s = h_{t−1}·weight + bias` and `x_t` the inputs of the gates:"""
    ...

@overload
def gru(x: Array, h0: Array, weight: Array, bias: Array, /, *, out: Out) -> Out: ...

@overload
def gru_grad(weight: Array, h0: Array, h: Array, saved: Array, g_h: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `Recurrence` with respect to the gates' inputs and the first state, from the last step to the first: `g_x`, `g_s`, `g_h0` and `g_c0`. That of the weight is a product of `g_s` and the states, over all steps."""
    ...

@overload
def gru_grad(weight: Array, h0: Array, h: Array, saved: Array, g_h: Array, /, *, out: Out) -> Out: ...

@overload
def iota(*, spec: str | tuple[DTypeLike, int | Sequence[int]], axis: int = 0, start: float = 0.0, step: float = 1.0, out: None = None) -> Tensor:
    r"""`out[.., i, ..] = start + step · i` along an axis: a range."""
    ...

@overload
def iota(*, spec: str | tuple[DTypeLike, int | Sequence[int]], axis: int = 0, start: float = 0.0, step: float = 1.0, out: Out) -> Out: ...

@overload
def l2_norm(x: Array, scale: Array | None = None, /, *, eps: float = 1e-06, scaled: bool = False, out: None = None) -> Tensor:
    r"""`y = scale · x / √(Σ x² + eps)`, the sum over the last axis: rows of length `scale`, or 1 without one, but for `eps`."""
    ...

@overload
def l2_norm(x: Array, scale: Array | None = None, /, *, eps: float = 1e-06, scaled: bool = False, out: Out) -> Out: ...

@overload
def l2_norm_grad(gy: Array, x: Array, scale: Array | None = None, /, *, eps: float = 1e-06, scaled: bool = False, out: None = None) -> Tensor:
    r"""Gradient of `L2Norm`: with `s = Σ x² + eps` in each row, `gx = scale · (gy − x · (Σ gy·x) / s) / √s`: what lies along `x` is taken off `gy`, so errors are relative to `scale·gy/√s`. Where there is a scale, its gradient is the second result, `gscale = (Σ gy·x) / √s`."""
    ...

@overload
def l2_norm_grad(gy: Array, x: Array, scale: Array | None = None, /, *, eps: float = 1e-06, scaled: bool = False, out: Out) -> Out: ...

@overload
def layer_norm(x: Array, weight: Array, bias: Array, /, *, eps: float = 1e-05, out: None = None) -> tuple[Tensor, ...]:
    r"""`y = (x − mean)·rstd·weight + bias` over the last axis, `rstd = 1/√(variance + eps)`, population variance."""
    ...

@overload
def layer_norm(x: Array, weight: Array, bias: Array, /, *, eps: float = 1e-05, out: Out) -> Out: ...

@overload
def layer_norm_grad(gy: Array, x: Array, weight: Array, mean: Array, rstd: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `LayerNorm`: with `h = (x − mean)·rstd` and `g = gy·weight` in each row, `gx = rstd·(g − mean(g) − h·mean(g·h))`, `gweight = Σ gy·h` and `gbias = Σ gy` over all rows."""
    ...

@overload
def layer_norm_grad(gy: Array, x: Array, weight: Array, mean: Array, rstd: Array, /, *, out: Out) -> Out: ...

@overload
def leaky_relu(x: Array | float, /, *, slope: float = 0.01, out: None = None) -> Tensor:
    r"""`out = x` where `x > 0`, else `slope · x`."""
    ...

@overload
def leaky_relu(x: Array | float, /, *, slope: float = 0.01, out: Out) -> Out: ...

@overload
def ln(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = ln x`. Gradient: `cotangent / x`."""
    ...

@overload
def ln(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def log1p(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = ln(1 + x)`, accurate near 0; −∞ at −1, NaN below. Gradient: `cotangent / (1 + x)`."""
    ...

@overload
def log1p(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def lookup(table: Array, cursor: Array, /, *, out: None = None) -> Tensor:
    r"""`out = table[min(STEP, n − 1)]`: a schedule computed before the run, such as the learning rate of each step."""
    ...

@overload
def lookup(table: Array, cursor: Array, /, *, out: Out) -> Out: ...

def loss_scale(state: Array, ok: Array, /, *, interval: int = 2000, growth: float = 2.0, backoff: float = 0.5, least: float = 0.5, out: Any = None) -> Any:
    r"""One step of dynamic loss scaling on `state = [scale, run]`, where `run` counts the sound steps since the scale changed."""
    ...

@overload
def lstm(x: Array, h0: Array, weight: Array, bias: Array, c0: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""A recurrent layer over time, from the gates' inputs on. With `s = h_{t−1}·weight + bias` and `x_t` the inputs of the gates:"""
    ...

@overload
def lstm(x: Array, h0: Array, weight: Array, bias: Array, c0: Array, /, *, out: Out) -> Out: ...

@overload
def lstm_grad(weight: Array, h0: Array, h: Array, saved: Array, g_h: Array, c0: Array, c: Array, g_c: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `Recurrence` with respect to the gates' inputs and the first state, from the last step to the first: `g_x`, `g_s`, `g_h0` and `g_c0`. That of the weight is a product of `g_s` and the states, over all steps."""
    ...

@overload
def lstm_grad(weight: Array, h0: Array, h: Array, saved: Array, g_h: Array, c0: Array, c: Array, g_c: Array, /, *, out: Out) -> Out: ...

@overload
def mae(prediction: Array, target: Array, /, *, out: None = None) -> Tensor:
    r"""Mean absolute error: `out = (1/n) Σ |prediction − target|` over all `n` elements."""
    ...

@overload
def mae(prediction: Array, target: Array, /, *, out: Out) -> Out: ...

@overload
def mae_grad(prediction: Array, target: Array, cotangent: Array, /, *, parts: int = 1, out: None = None) -> Tensor:
    r"""Gradient of `Mae` to its first argument: `out = sign(prediction − target)·cotangent/n`."""
    ...

@overload
def mae_grad(prediction: Array, target: Array, cotangent: Array, /, *, parts: int = 1, out: Out) -> Out: ...

@overload
def masked_attention(q: Array, k: Array, v: Array, mask_: Array | None = None, lengths_: Array | None = None, /, *, scale: float | None = None, causal: bool = False, mask: bool = False, lengths: bool = False, out: None = None) -> tuple[Tensor, ...]:
    r"""`out = softmax(S)·v` over the keys that a query sees, `S = scale·q·kᵀ (+ mask)`, for each batch entry and head."""
    ...

@overload
def masked_attention(q: Array, k: Array, v: Array, mask_: Array | None = None, lengths_: Array | None = None, /, *, scale: float | None = None, causal: bool = False, mask: bool = False, lengths: bool = False, out: Out) -> Out: ...

@overload
def masked_attention_grad(q: Array, k: Array, v: Array, mask_: Array | None = None, lengths_: Array | None = None, out_: Array | None = None, lse: Array | None = None, g_out: Array | None = None, /, *, scale: float | None = None, causal: bool = False, mask: bool = False, lengths: bool = False, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of `MaskedAttention`. The scores `S` are computed again; then `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out))`, `gq = scale·dS·k`, `gk = scale·dSᵀ·q`, `gv = Pᵀ·g_out`, these two summed over the query heads of a key head."""
    ...

@overload
def masked_attention_grad(q: Array, k: Array, v: Array, mask_: Array | None = None, lengths_: Array | None = None, out_: Array | None = None, lse: Array | None = None, g_out: Array | None = None, /, *, scale: float | None = None, causal: bool = False, mask: bool = False, lengths: bool = False, out: Out) -> Out: ...

@overload
def matmul(lhs: Array, rhs: Array, addend: Array | None = None, bias: Array | None = None, /, *, precision: Literal["strict", "tf32"] = 'strict', wide: bool = False, out: None = None) -> Tensor:
    r"""`out[.., i, j] = Σ_p lhs[.., i, p] · rhs[.., p, j]` (+ `addend[.., i, j]`) (+ `bias[j]`)."""
    ...

@overload
def matmul(lhs: Array, rhs: Array, addend: Array | None = None, bias: Array | None = None, /, *, precision: Literal["strict", "tf32"] = 'strict', wide: bool = False, out: Out) -> Out: ...

@overload
def max(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: None = None) -> Tensor:
    r"""`out[kept] = reduction over the axes of x[kept, reduced]`."""
    ...

@overload
def max(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: Out) -> Out: ...

@overload
def maximum(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = max(lhs, rhs)`, NaN if either is; of bool: or. The gradient goes to the larger, to both by halves where they are equal."""
    ...

@overload
def maximum(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def mean(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: None = None) -> Tensor:
    r"""`out[kept] = reduction over the axes of x[kept, reduced]`."""
    ...

@overload
def mean(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: Out) -> Out: ...

def micro_batch_mean(mean: Array, value: Array, cursor: Array, /, *, micro_batches: int, out: Any = None) -> Any:
    r"""`mean ← value/n` in the first micro-batch of the rank, `mean + value/n` in the others, n their number: after the last, the mean over all."""
    ...

@overload
def min(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: None = None) -> Tensor:
    r"""`out[kept] = reduction over the axes of x[kept, reduced]`."""
    ...

@overload
def min(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: Out) -> Out: ...

@overload
def minimum(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = min(lhs, rhs)`, NaN if either is; of bool: and. The gradient goes to the smaller, to both by halves where they are equal."""
    ...

@overload
def minimum(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def mse(prediction: Array, target: Array, /, *, out: None = None) -> Tensor:
    r"""Mean squared error: `out = (1/n) Σ (prediction − target)²` over all `n` elements."""
    ...

@overload
def mse(prediction: Array, target: Array, /, *, out: Out) -> Out: ...

@overload
def mse_grad(prediction: Array, target: Array, cotangent: Array, /, *, parts: int = 1, out: None = None) -> Tensor:
    r"""Gradient of `Mse` to its first argument: `out = 2(prediction − target)·cotangent/n`."""
    ...

@overload
def mse_grad(prediction: Array, target: Array, cotangent: Array, /, *, parts: int = 1, out: Out) -> Out: ...

@overload
def mul(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs · rhs`. Gradients: `cotangent · rhs` and `cotangent · lhs`."""
    ...

@overload
def mul(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def neg(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = −x`. Gradient: `−cotangent`."""
    ...

@overload
def neg(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def pack(*x: Array, out: None = None) -> Tensor:
    r"""The arguments behind each other in one flat tensor: `out[s_k + i] = x_k[i]`, where each `s_k` is the first multiple of 16 elements behind the argument before; gaps are zero. The layout of a state's slab, so that gradients packed in the order of the parameters match them element for element."""
    ...

@overload
def pack(*x: Array, out: Out) -> Out: ...

@overload
def pad(x: Array, /, *, axis: int, before: int = 0, after: int = 0, out: None = None) -> Tensor:
    r"""`out[.., before + i, ..] = x[.., i, ..]` along one axis, zero elsewhere."""
    ...

@overload
def pad(x: Array, /, *, axis: int, before: int = 0, after: int = 0, out: Out) -> Out: ...

@overload
def pad_edge(x: Array, /, *, after: int, out: None = None) -> Tensor:
    r"""`out[.., i] = x[.., min(i, n − 1)]` for `i < n + after`."""
    ...

@overload
def pad_edge(x: Array, /, *, after: int, out: Out) -> Out: ...

@overload
def pair_probs(v: Array, map: Array, /, *, experts: int, out: None = None) -> Tensor:
    r"""The values of rows, by token and expert: `out[t, e] = v[R(t, e)]`, 0 where t does not go to e. Gradient of `Permute`'s probabilities."""
    ...

@overload
def pair_probs(v: Array, map: Array, /, *, experts: int, out: Out) -> Out: ...

@overload
def permute(x: Array, map: Array, source: Array, p: Array | None = None, /, *, probs: bool = False, drop_zero: bool = False, out: None = None) -> Tensor:
    r"""Copies the row of each token to the rows of its pairs: `y[R(t, e), :] = x[t, :]`, and with probabilities `py[R(t, e)] = p[t, e]`. Rows without a pair are zero."""
    ...

@overload
def permute(x: Array, map: Array, source: Array, p: Array | None = None, /, *, probs: bool = False, drop_zero: bool = False, out: Out) -> Out: ...

@overload
def pow(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs^rhs`, with the special cases of IEEE 754: NaN for a negative number to a fractional power. Gradients: `cotangent · rhs · lhs^(rhs − 1)` and `cotangent · out · ln lhs`; 0 of a power of 0."""
    ...

@overload
def pow(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def prod(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: None = None) -> Tensor:
    r"""`out[kept] = reduction over the axes of x[kept, reduced]`."""
    ...

@overload
def prod(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: Out) -> Out: ...

@overload
def recip(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = 1/x`. Gradient: `−cotangent · out²`."""
    ...

@overload
def recip(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def reduce_scatter(x: Array, /, *, ranks: int, reduction: Literal["sum", "mean", "max", "min", "prod"] = 'sum', out: None = None) -> Tensor:
    r"""`out[i, ..] = x₀[r·n + i, ..] ∘ x₁[r·n + i, ..] ∘ …` on rank r: block r of the ranks' combination, as `AllReduce` computes it."""
    ...

@overload
def reduce_scatter(x: Array, /, *, ranks: int, reduction: Literal["sum", "mean", "max", "min", "prod"] = 'sum', out: Out) -> Out: ...

@overload
def relu(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = max(x, 0)`, NaN stays NaN. Gradient: the cotangent where `x > 0`, else 0, also at 0, as in PyTorch."""
    ...

@overload
def relu(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def rem(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs − ⌊lhs / rhs⌋ · rhs`: the remainder with the sign of `rhs`, 0 too, as `%` in Python and numpy. Of integers 0 where `rhs` is 0, of floats NaN. Gradients: `cotangent` and `−cotangent · ⌊lhs / rhs⌋`."""
    ...

@overload
def rem(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

def ring_push(ring: Array, cursor: Array, /, *values: Array, out: Any = None) -> Any:
    r"""Writes `v_0 … v_(K−1)` into row `STEP mod R` of a ring: what the host may read later, some steps at once."""
    ...

@overload
def round(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out` = the integer nearest to `x`, the even one of two, as in numpy and PyTorch. Gradient: 0."""
    ...

@overload
def round(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def route_map(routed: Array, /, *, most: int, rows: int, align: int = 1, index: Literal["int32", "int64"] = 'int32', out: None = None) -> tuple[Tensor, ...]:
    r"""Numbers the rows of a mixture-of-experts' permuted buffer: pair (t, e) has row `R(t, e) = base_e + ρ(t, e)`, where `ρ(t, e)` is the number of tokens before t that go to e, `base_e = Σ_{e' < e} ĉ_e'`, and `ĉ_e = align · ⌈c_e / align⌉` for the `c_e` tokens of e. So rows are grouped by expert, and within one the tokens keep their order."""
    ...

@overload
def route_map(routed: Array, /, *, most: int, rows: int, align: int = 1, index: Literal["int32", "int64"] = 'int32', out: Out) -> Out: ...

@overload
def rsqrt(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = 1/√x`. Gradient: `−cotangent · out / (2 · x)`."""
    ...

@overload
def rsqrt(x: Array | float, /, *, out: Out) -> Out: ...

def running_update(running: Array, batch: Array, ok: Array, /, *, momentum: float = 0.1, unbiased_count: int | None = None, out: Any = None) -> Any:
    r"""`running ← (1 − momentum)·running + momentum·batch·c` if `ok`, else unchanged; `c = n/(n − 1)` with `unbiased_count = Some(n)` and `n > 1`, which makes a biased variance unbiased, else 1."""
    ...

@overload
def scatter_add(into: Array, index: Array, source: Array, /, *, axis: int, rows: bool | None = None, out: None = None) -> Tensor:
    r"""`out = into`, then each element of `source` is added where its index leads: the transpose of `Gather`."""
    ...

@overload
def scatter_add(into: Array, index: Array, source: Array, /, *, axis: int, rows: bool | None = None, out: Out) -> Out: ...

@overload
def sigmoid(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = σ(x) = 1 / (1 + e⁻ˣ)`. Gradient: `cotangent · σ(x)·σ(−x)`: `out − out²`, which does not cancel so."""
    ...

@overload
def sigmoid(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def sign(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = −1, 0 or 1`, the sign of `x`. Gradient: 0."""
    ...

@overload
def sign(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def silu(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = x / (1 + e⁻ˣ)`: x · σ(x) with the sigmoid σ, also called swish. Gradient: `cotangent · σ(x)·(1 + x·σ(−x))`."""
    ...

@overload
def silu(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def sin(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = sin x`, in radians. Gradient: `cotangent · cos x`."""
    ...

@overload
def sin(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def softmax(x: Array, /, *, axis: int = -1, out: None = None) -> Tensor:
    r"""`out[.., i, ..] = exp(x[.., i, ..] − m) / Σᵢ exp(x[.., i, ..] − m)`, `m` the largest element along the axis."""
    ...

@overload
def softmax(x: Array, /, *, axis: int = -1, out: Out) -> Out: ...

@overload
def softplus(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = ln(1 + eˣ)`, as `max(x, 0) + ln(1 + e^(−|x|))`, which never overflows. Gradient: `cotangent · sigmoid x`."""
    ...

@overload
def softplus(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, out: None = None) -> tuple[Tensor, ...]:
    r"""The elements of `x` along an axis in ascending (or `descending`) order, and the index of each in `x` as i64: `values[.., j, ..] = x[.., indices[.., j, ..], ..]`."""
    ...

@overload
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, out: Out) -> Out: ...

@overload
def sort_chunks(x: Array, d: Array, p: Array | None = None, /, *, probs: bool = False, inverse: bool = False, out: None = None) -> Tensor:
    r"""Brings rows to where a map sends them: `y[D(r), :] = x[r, :]`, and with probabilities `py[D(r)] = p[r]`; or back, `y[r, :] = x[D(r), :]` and `py[r] = p[D(r)]`, with `inverse`."""
    ...

@overload
def sort_chunks(x: Array, d: Array, p: Array | None = None, /, *, probs: bool = False, inverse: bool = False, out: Out) -> Out: ...

@overload
def sqrt(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = √x`. Gradient: `cotangent / (2 · out)`."""
    ...

@overload
def sqrt(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def sub(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs − rhs`. Gradients: `cotangent` and `−cotangent`."""
    ...

@overload
def sub(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def sum(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: None = None) -> Tensor:
    r"""`out[kept] = reduction over the axes of x[kept, reduced]`."""
    ...

@overload
def sum(x: Array, /, *, axes: int | Sequence[int] | None = None, wide: bool = False, out: Out) -> Out: ...

@overload
def swiglu(lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = lhs·σ(lhs)·rhs` with the sigmoid σ: SwiGLU with the gate first (Shazeer 2020). Gradients: `cotangent · rhs · σ(lhs)·(1 + lhs·σ(−lhs))` and `cotangent · lhs·σ(lhs)`."""
    ...

@overload
def swiglu(lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def tanh(x: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = tanh x`. Gradient: `cotangent · 4·σ(2x)·σ(−2x)` with the sigmoid σ: `1 − out²`, which does not cancel so."""
    ...

@overload
def tanh(x: Array | float, /, *, out: Out) -> Out: ...

@overload
def top_k(p: Array, /, *, k: int, renormalise: bool, out: None = None) -> tuple[Tensor, ...]:
    r"""Chooses the `k` experts of the largest probabilities of each token: `routed[t, e] = 1` for these, and `weights[t, e] = p[t, e] / Σ_chosen p[t, ·]` for these, with `renormalise` off `p[t, e]`, 0 for the others."""
    ...

@overload
def top_k(p: Array, /, *, k: int, renormalise: bool, out: Out) -> Out: ...

@overload
def top_k_grad(p: Array, routed: Array, gw: Array, /, *, renormalise: bool, out: None = None) -> Tensor:
    r"""Gradient of `TopK`'s weights to the probabilities: with `S = Σ_chosen p[t, ·]`, `out[t, e] = (gw[t, e] − Σ_chosen gw[t, ·] · p[t, ·] / S) / S` where e is chosen, 0 elsewhere; `gw[t, e]` there where the weights are not divided by their sum."""
    ...

@overload
def top_k_grad(p: Array, routed: Array, gw: Array, /, *, renormalise: bool, out: Out) -> Out: ...

@overload
def uniform(cursor: Array, /, *, spec: str | tuple[DTypeLike, int | Sequence[int]], low: float = 0.0, high: float = 1.0, stream: int = 0, out: None = None) -> Tensor:
    r"""`out_i = low + (high − low) · u_i`, `u_i` uniform in [0, 1) (24 bits, for f64 53), rounded to the dtype once (which may round up to `high`)."""
    ...

@overload
def uniform(cursor: Array, /, *, spec: str | tuple[DTypeLike, int | Sequence[int]], low: float = 0.0, high: float = 1.0, stream: int = 0, out: Out) -> Out: ...

@overload
def unpermute(y: Array, map: Array, source: Array, w: Array | None = None, /, *, out: None = None) -> Tensor:
    r"""Adds up the rows of each token: `z[t, :] = Σ_e w[t, e] · y[R(t, e), :]`, without weights `Σ_e y[R(t, e), :]`; a token without a pair has zeros. Forward of the merging, and backward of `Permute`."""
    ...

@overload
def unpermute(y: Array, map: Array, source: Array, w: Array | None = None, /, *, out: Out) -> Out: ...

@overload
def unpermute_grad(y: Array, map: Array, source: Array, w: Array, gz: Array, /, *, out: None = None) -> tuple[Tensor, ...]:
    r"""Gradient of a weighted `Unpermute`: `gy[R(t, e), :] = w[t, e] · gz[t, :]`, zero in rows without a pair, and `gw[t, e] = Σ_h y[R(t, e), h] · gz[t, h]`, 0 where t does not go to e."""
    ...

@overload
def unpermute_grad(y: Array, map: Array, source: Array, w: Array, gz: Array, /, *, out: Out) -> Out: ...

@overload
def where(condition: Array | float, lhs: Array | float, rhs: Array | float, /, *, out: None = None) -> Tensor:
    r"""`out = condition ? lhs : rhs`."""
    ...

@overload
def where(condition: Array | float, lhs: Array | float, rhs: Array | float, /, *, out: Out) -> Out: ...

@overload
def window_gather(series: Array, starts: Array, /, *, stride: int = 1, offset: int = 0, length: int, width: int, out: None = None) -> Tensor:
    r"""`out[b, c, t] = series[c, starts[b] · stride + offset + t]` for `t < length`, else 0."""
    ...

@overload
def window_gather(series: Array, starts: Array, /, *, stride: int = 1, offset: int = 0, length: int, width: int, out: Out) -> Out: ...
