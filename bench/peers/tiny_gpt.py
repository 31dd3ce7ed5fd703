"""The model of examples/tiny-gpt in PyTorch, from the same weights on, on the same batches.

    cargo run --release -p tiny-gpt -- run.safetensors
    python3 bench/peers/tiny_gpt.py run.safetensors

It fails unless the loss of the first step is equal to 1e-6 and the mean loss of the last ten steps to 1 %.
"""

import sys

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

BATCH, HEADS, KEY_HEADS, BASE, EPS = 12, 4, 2, 1e4, 1e-5


def norm(w, name, x):
    return F.rms_norm(x, x.shape[-1:], w[f"{name}.weight"], EPS)


def linear(w, name, x):
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def rotary(x):
    """Turns feature c and feature c + e/2 of the token at place p by p·BASE^(−2c/e); x is [B, heads, T, e]."""
    tokens, half = x.shape[2], x.shape[3] // 2
    angles = torch.arange(tokens)[:, None] * BASE ** (-torch.arange(half) / half)
    sin, cos = angles.sin(), angles.cos()
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def attention(w, name, x):
    batch, tokens, features = x.shape
    e = features // HEADS
    projected = F.linear(x, w[f"{name}.in_proj_weight"], w[f"{name}.in_proj_bias"])
    heads = projected.view(batch, tokens, HEADS + 2 * KEY_HEADS, e).transpose(1, 2)
    q, k, v = heads.split([HEADS, KEY_HEADS, KEY_HEADS], 1)
    q, k, v = rotary(q), *(z.repeat_interleave(HEADS // KEY_HEADS, 1) for z in (rotary(k), v))
    merged = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    return linear(w, f"{name}.out_proj", merged.reshape(batch, tokens, features))


def logits(w, tokens):
    x = w["bytes.weight"][tokens]
    for i in range(sum(name.endswith(".gate.weight") for name in w)):
        x = x + attention(w, f"{i}.attention", norm(w, f"{i}.before_attention", x))
        h = norm(w, f"{i}.before_feed_forward", x)
        x = x + linear(w, f"{i}.down", F.silu(linear(w, f"{i}.gate", h)) * linear(w, f"{i}.up", h))
    return linear(w, "head", norm(w, "norm", x))


def main():
    tensors = load_file(sys.argv[1])
    ours, rows = tensors.pop("losses"), tensors.pop("data.bytes")
    weights = {name: value.requires_grad_() for name, value in tensors.items()}
    optimizer = torch.optim.Adam(weights.values(), lr=0.003)
    theirs = []
    for batch in rows.split(BATCH):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(weights, batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    first = abs(theirs[0] - ours[0].item())
    last = [sum(losses[-10:]) / 10 for losses in (ours.tolist(), theirs)]
    print(f"first step: ours {ours[0].item():.8f}, PyTorch {theirs[0]:.8f}, difference {first:.1e}")
    print(f"mean of the last ten of {len(theirs)} steps: ours {last[0]:.6f}, PyTorch {last[1]:.6f}")
    sys.exit(first > 1e-6 or abs(last[0] / last[1] - 1) > 0.01)


if __name__ == "__main__":
    main()
