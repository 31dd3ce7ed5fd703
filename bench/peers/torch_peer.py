"""PyTorch peer: training steps of PatchTST, TiDE, TSMixer and CrossAsset, and single ops. See protocol.py for how it is talked to.

Modes: eager, compile (torch.compile), and on cuda graph and compile-graph (the step in one CUDA graph).
Products of f32 are strict; those of tf32 may use TF32, as PyTorch users commonly set it.
"""

import contextlib
import itertools
import warnings

import protocol
import rows

MODES = {"cpu": ["eager", "compile"], "cuda": ["eager", "compile", "graph", "compile-graph"]}
args = protocol.arguments(MODES)

import torch  # noqa: E402  (after the number of threads is set)
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from cuda_graph import Captured  # noqa: E402
from forecasters import TiDE, TSMixer  # noqa: E402

warnings.filterwarnings("ignore")
torch.set_num_threads(args.threads)
# Rows share code, and every row's compiled form stays: a limit would send the later ones back to eager.
for limit in ("recompile_limit", "accumulated_recompile_limit"):
    setattr(torch._dynamo.config, limit, 4096)
DEVICE = args.device
HALF = {"bf16": torch.bfloat16, "f16": torch.float16}
DTYPES = {"f32": torch.float32, "tf32": torch.float32, **HALF}


def allow_tf32(allowed):
    """Whether products of f32 may round their factors to TF32, from here on."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def compiled(call):
    """Compiled for the sizes at hand; another row's sizes must not make it general."""
    return torch.compile(call, dynamic=False)


class BatchNorm(nn.BatchNorm1d):
    """Over all axes but the last."""

    def forward(self, x):
        return super().forward(x.flatten(0, -2)).view_as(x)


class Encoder(nn.Module):
    """One post-norm layer on [rows, patches, d_model]."""

    def __init__(self, c):
        super().__init__()
        d = c["d_model"]
        norm = BatchNorm if c["norm"] == "batch" else nn.LayerNorm
        self.heads, self.rate = c["heads"], c["dropout"]
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.expand, self.contract = nn.Linear(d, c["d_ff"]), nn.Linear(c["d_ff"], d)
        self.norm_attention, self.norm_feed_forward = norm(d), norm(d)

    def drop(self, x):
        return F.dropout(x, self.rate, self.training) if self.rate else x

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm_attention(x + self.drop(self.out(attended)))
        hidden = self.drop(F.gelu(self.expand(x)))
        return self.norm_feed_forward(x + self.drop(self.contract(hidden)))


class PatchTST(nn.Module):
    """[batch, channels, context] to [batch, channels, horizon]; each channel on its own."""

    def __init__(self, c):
        super().__init__()
        n, d = rows.patches(c), c["d_model"]
        self.c = c
        self.embed = nn.Linear(c["patch"], d)
        self.positions = nn.Parameter(torch.empty(n, d).uniform_(-0.02, 0.02))
        self.layers = nn.Sequential(*(Encoder(c) for _ in range(c["layers"])))
        self.head = nn.Linear(n * d, c["horizon"])

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        z = ((x - mean) / std).flatten(0, 1)
        if self.c["padding"]:
            z = F.pad(z, (0, self.c["stride"]), mode="replicate")
        hidden = self.embed(z.unfold(-1, self.c["patch"], self.c["stride"])) + self.positions
        y = self.head(self.layers(hidden).flatten(1))
        return y.view(*x.shape[:2], -1) * std + mean


class UnitAttention(nn.Module):
    """Attention over [batch, tokens, d] whose queries and keys have length 1."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 8.0))

    @staticmethod
    def unit(x):
        return x * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6).to(x.dtype)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (self.unit(q) @ self.unit(k).transpose(-1, -2)).float() * self.temperature
        return self.out((scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2))


class CrossLayer(nn.Module):
    """One post-norm layer across tokens."""

    def __init__(self, c):
        super().__init__()
        d = c["d_model"]
        self.attention = UnitAttention(d, c["heads"])
        self.expand, self.contract = nn.Linear(d, c["d_ff"]), nn.Linear(c["d_ff"], d)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = self.norm_attention(x + self.attention(x))
        return self.norm_feed_forward(x + self.contract(F.gelu(self.expand(x))))


class CrossAsset(nn.Module):
    """[batch, tokens, features] to logits [batch, tokens, classes]; each token has a projection of its own."""

    def __init__(self, c):
        super().__init__()
        tokens, features, d = c["tokens"], c["features"], c["d_model"]
        self.weight = nn.Parameter(torch.empty(tokens, features, d).uniform_(-1, 1) / features**0.5)
        self.bias = nn.Parameter(torch.zeros(tokens, 1, d))
        self.layers = nn.Sequential(*(CrossLayer(c) for _ in range(c["layers"])))
        self.head = nn.Linear(d, c["classes"])

    def forward(self, x):
        projected = torch.baddbmm(self.bias, x.transpose(0, 1), self.weight)
        return self.head(self.layers(projected.transpose(0, 1)))


FORECASTERS = {"patchtst": PatchTST, "tide": TiDE, "tsmixer": TSMixer}


def mixed(dtype):
    """The context in which a forward pass runs in this dtype."""
    if dtype not in HALF:
        return contextlib.nullcontext()
    return torch.autocast(DEVICE, HALF[dtype], cache_enabled=False)


def together(model):
    """The model as ranks train it; one process trains it alone. See ddp.py."""
    return model


class Update:
    """Clipping to norm 1 and AdamW; in f16 with a scaled loss."""

    def __init__(self, model, dtype):
        self.parameters = list(model.parameters())
        self.count = sum(p.numel() for p in self.parameters)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=rows.LEARNING_RATE, weight_decay=rows.WEIGHT_DECAY, fused=True,
            capturable=DEVICE == "cuda",
        )
        self.scaler = torch.amp.GradScaler(DEVICE, enabled=dtype == "f16")

    def forget(self):
        """Drops the gradients of the step before."""
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def __call__(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def cross_step(c, dtype, mode):
    """One step on the next samples, in micro-batches one after the other; gives the mean of their losses."""
    torch.manual_seed(2021)
    inputs = torch.randn(rows.SAMPLES, c["tokens"], c["features"], device=DEVICE)
    labels = torch.randint(0, c["classes"], (rows.SAMPLES, c["tokens"]), device=DEVICE)
    picked = torch.randint(0, rows.SAMPLES, (64, c["batch"]), device=DEVICE)
    model = together(CrossAsset(c).to(DEVICE).train())
    update = Update(model, dtype)

    def loss_of(samples):
        with mixed(dtype):
            logits = model(inputs[samples])
        return F.cross_entropy(logits.float().flatten(0, 1), labels[samples].flatten())

    forward = compiled(loss_of) if mode.startswith("compile") else loss_of
    batches = itertools.cycle(picked.unbind(0))

    def step(batch=None):
        update.forget()
        total = 0.0
        for samples in (next(batches) if batch is None else batch).chunk(c["micro_batches"]):
            loss = forward(samples) / c["micro_batches"]
            update.backward(loss)
            total = total + loss.detach()
        update()
        return total

    return graphed(step, update, picked, batches, mode), update.count


def graphed(step, update, all_batches, batches, mode):
    """The step as one CUDA graph where the mode says so. It reads its batch from one place, which each step fills."""
    if not mode.endswith("graph"):
        return step
    batch = all_batches[0].clone()
    replay = Captured(lambda: step(batch), forget=update.forget)

    def replayed():
        batch.copy_(next(batches))
        replay()
        return replay.result

    return replayed


def training_step(c, dtype, mode):
    """One step on the next windows; gives its loss."""
    if "tokens" in c:
        return cross_step(c, dtype, mode)
    torch.manual_seed(2021)
    length = c["context"] + c["horizon"]
    series = torch.randn(c["channels"], rows.WINDOWS + length, device=DEVICE).cumsum(-1) * 0.1
    starts = torch.randint(0, rows.WINDOWS, (256, c["batch"]), device=DEVICE)
    offsets = torch.arange(length, device=DEVICE)
    model = together(FORECASTERS[c.get("model", "patchtst")](c).to(DEVICE).train())
    update = Update(model, dtype)

    def loss_of(start):
        window = series[:, start[:, None] + offsets].transpose(0, 1)
        x, target = window.split([c["context"], c["horizon"]], dim=-1)
        with mixed(dtype):
            y = model(x)
        return F.mse_loss(y.float(), target)

    forward = compiled(loss_of) if mode.startswith("compile") else loss_of
    batches = itertools.cycle(starts.unbind(0))

    def step(start=None):
        update.forget()
        loss = forward(next(batches) if start is None else start)
        update.backward(loss)
        update()
        return loss.detach()

    return graphed(step, update, starts, batches, mode), update.count


def op_call(row, dtype):
    """One call of an op row."""
    op, sizes = rows.parse_op(row)
    op = op.removeprefix("large-").removeprefix("half-")
    torch.manual_seed(2021)

    def random(*shape, grad=False):
        return torch.randn(*shape, device=DEVICE, dtype=dtype).requires_grad_(grad)

    def backward(f, inputs, like):
        """The backward pass alone of `f`."""
        cotangent = random(*like)
        result = f(*inputs)
        return lambda: torch.autograd.grad(result, inputs, cotangent, retain_graph=True)

    if op == "matmul":
        m, k, n = sizes
        x, weight, bias, out = random(m, k), random(n, k), random(n), random(m, n)
        return lambda: torch.addmm(bias, x, weight.t(), out=out)
    if op == "matmul-weight-grad":
        m, k, n = sizes
        x, cotangent, out = random(m, k), random(m, n), random(n, k)
        return lambda: torch.mm(cotangent.t(), x, out=out)
    if op == "matmul-input-grad":
        m, k, n = sizes
        cotangent, weight, out = random(m, n), random(n, k), random(m, k)
        return lambda: torch.mm(cotangent, weight, out=out)
    if op == "softmax":
        x, out = random(*sizes), random(*sizes)
        return lambda: torch.softmax(x, -1, out=out)
    if op == "layer-norm":
        x, weight, bias = random(*sizes), random(sizes[-1]), random(sizes[-1])
        return lambda: F.layer_norm(x, sizes[-1:], weight, bias)
    if op == "layer-norm-grad":
        inputs = [random(*sizes, grad=True), random(sizes[-1], grad=True), random(sizes[-1], grad=True)]
        return backward(lambda x, w, b: F.layer_norm(x, sizes[-1:], w, b), inputs, sizes)
    if op == "batch-norm":
        x, weight, bias = random(*sizes), random(sizes[-1]), random(sizes[-1])
        return lambda: F.batch_norm(x, None, None, weight, bias, training=True)
    if op == "batch-norm-grad":
        inputs = [random(*sizes, grad=True), random(sizes[-1], grad=True), random(sizes[-1], grad=True)]
        return backward(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), inputs, sizes)
    if op == "gelu":
        x = random(*sizes)
        return lambda: F.gelu(x)
    if op == "gelu-grad":
        return backward(F.gelu, [random(*sizes, grad=True)], sizes)
    if op == "dropout":
        x = random(*sizes)
        return lambda: F.dropout(x, rows.DROPOUT, True)
    if op in ("attention", "attention-train"):
        b, n, h, e = sizes
        train = op == "attention-train"
        q, k, v = (random(b, n, h, e, grad=train).transpose(1, 2) for _ in range(3))
        if not train:
            return lambda: F.scaled_dot_product_attention(q, k, v)
        leaves, cotangent = [t.detach().requires_grad_() for t in (q, k, v)], random(b, h, n, e)
        return lambda: torch.autograd.grad(F.scaled_dot_product_attention(*leaves), leaves, cotangent)
    if op == "copy":
        x, out = random(*sizes), random(*sizes)
        return lambda: out.copy_(x)
    if op == "transpose":
        x, out = random(*sizes), random(*reversed(sizes))
        return lambda: out.copy_(x.t())
    if op == "sum-rows":
        x, out = random(*sizes), random(sizes[0])
        return lambda: torch.sum(x, 1, out=out)
    if op == "sum-columns":
        x, out = random(*sizes), random(sizes[1])
        return lambda: torch.sum(x, 0, out=out)
    if op == "add":
        lhs, rhs, out = random(*sizes), random(*sizes), random(*sizes)
        return lambda: torch.add(lhs, rhs, out=out)
    if op in ("gru-train", "gru-train-cudnn"):
        batch, steps, hidden = sizes
        layer = torch.nn.GRU(hidden, hidden, batch_first=True).to(DEVICE, dtype)
        leaves, cotangent = [random(batch, steps, hidden, grad=True), *layer.parameters()], random(*sizes)

        def train():
            # The row without cuDNN: what PyTorch does by itself, as for a cell that cuDNN does not have.
            with torch.backends.cudnn.flags(enabled=op == "gru-train-cudnn"):
                return torch.autograd.grad(layer(leaves[0])[0], leaves, cotangent)

        return train
    if op == "adam":
        parameter = torch.randn(*sizes, device=DEVICE).requires_grad_()
        parameter.grad = torch.randn(*sizes, device=DEVICE)
        capturable = DEVICE == "cuda"
        return torch.optim.AdamW([parameter], lr=rows.LEARNING_RATE, fused=True, capturable=capturable).step
    raise ValueError(f"no op {op}")


def build(row, dtype, mode):
    synchronize = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
    if dtype not in DTYPES or (dtype == "tf32" and DEVICE == "cpu"):
        raise ValueError(f"no {dtype} on {DEVICE}")
    allow_tf32(dtype == "tf32")
    losses = parameters = None
    if row in rows.STEPS:
        step, parameters = training_step(rows.STEPS[row], dtype, mode)

        def losses():
            return [float(step()) for _ in range(8)]

    else:
        step = op_call(row, DTYPES[dtype])
        if mode.startswith("compile"):
            step = compiled(step)
        if mode.endswith("graph"):
            step = Captured(step)

    def run(steps):
        # Read when a product is called, so it belongs to each sample.
        allow_tf32(dtype == "tf32")
        for _ in range(steps):
            step()
        synchronize()

    return protocol.Timed(run, losses, parameters)


protocol.serve(args, "torch", torch.__version__, MODES[DEVICE], build)
