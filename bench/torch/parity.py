"""Compares `landfall.torch.moe` with TransformerEngine's functions of the same names, on the CPU: its kernels run in Triton's interpreter.

    python parity.py FOLDER

`FOLDER` holds TransformerEngine's Python files (see peers/transformer_engine.py). Rows, probabilities, chunks and padding are compared bit for
bit, and so is the content of maps; sums and gradients by the error of their dtype. Where a probability is 0 the gradients of rows differ on
purpose (docs/coming-from-transformerengine.md), so that there they are compared with probabilities that are not.
"""

import contextlib
import os
import pathlib
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402

from landfall.torch import moe  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import transformer_engine  # noqa: E402


class Torch:
    """torch, which makes on the CPU what is asked for on a GPU."""

    def __getattr__(self, name):
        found = getattr(torch, name)
        if name not in ("empty", "zeros"):
            return found
        return lambda *args, device=None, **keywords: found(*args, **keywords)


@contextlib.contextmanager
def on_cpu():
    """Here a tensor says that it is on a GPU, for code that asks."""
    try:
        torch.Tensor.is_cuda = property(lambda tensor: True)
        yield
    finally:
        del torch.Tensor.is_cuda


def exact(what, ours, theirs):
    assert torch.equal(ours, theirs), f"{what}: {(ours != theirs).sum()} of {ours.numel()} differ"


def near(what, ours, theirs):
    assert ours.dtype == theirs.dtype, f"{what}: {ours.dtype} and {theirs.dtype}"
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}[ours.dtype]
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=tolerance, atol=tolerance, msg=lambda why: f"{what}: {why}")


def cells(row_id_map, experts, most):
    """The rows and experts of each token."""
    count = row_id_map[:, -1].tolist()
    rows = row_id_map.tolist()
    return [sorted(zip(row[:n], row[most : most + n])) for row, n in zip(rows, count)], count


def compared(te, tokens, experts, columns, k, dtype):
    torch.manual_seed(tokens + experts)
    mask = torch.zeros(tokens, experts, dtype=torch.int32).scatter_(1, torch.rand(tokens, experts).topk(k, 1).indices, 1)
    # A token without an expert.
    mask[tokens // 2] = 0
    rows = int(mask.sum())
    probs = torch.rand(tokens, experts) + 0.25
    x, z = torch.randn(tokens, columns, dtype=dtype), torch.randn(rows, columns, dtype=dtype)
    gy, gp, gz = torch.randn(rows, columns, dtype=dtype), torch.randn(rows), torch.randn(tokens, columns, dtype=dtype)

    def both(of):
        a, p, b, q = (t.clone().requires_grad_() for t in (x, probs, z, probs))
        y, carried, row_id_map = of.moe_permute_with_probs(a, p, mask, rows)
        merged = of.moe_unpermute(b, row_id_map, q, restore_shape=x.shape)
        summed = of.moe_unpermute(b, row_id_map, restore_shape=x.shape)
        plain, _ = of.moe_permute(a, mask, rows)
        moved = torch.autograd.grad((y, carried), (a, p), (gy, gp))
        sums = torch.autograd.grad((merged,), (b, q), (gz,)) + torch.autograd.grad((summed,), (b,), (gz,))
        return (y, carried, plain), row_id_map, (merged, summed), (*moved, *sums)

    with on_cpu():
        theirs = both(te)
    ours = both(moe)
    for what, one, other in zip(("rows", "probabilities", "plain rows"), ours[0], theirs[0]):
        exact(what, one, other)
    assert cells(ours[1][:tokens], experts, experts) == cells(theirs[1], experts, experts), "the maps differ"
    for what, one, other in zip(("weighted sums", "sums"), ours[2], theirs[2]):
        near(what, one, other)
    for what, one, other in zip(("x", "probs", "rows", "merging_probs", "rows of plain sums"), ours[3], theirs[3]):
        near(f"gradient of {what}", one, other)

    # Probabilities of 0, and padding.
    some = probs * (torch.rand(tokens, experts) > 0.3)
    counts = mask.sum(0)
    with on_cpu():
        theirs = te.moe_permute_with_probs(x, some, mask, rows)
        padded = te.moe_permute_and_pad_with_probs(x, some, mask, counts, 4)
        y = torch.randn(padded[0].shape, dtype=dtype)
        back = te.moe_unpermute(y, padded[2], some, x.shape, pad_offsets=padded[3])
    ours = moe.moe_permute_with_probs(x, some, mask, rows)
    exact("rows of probability 0", ours[0], theirs[0])
    own = moe.moe_permute_and_pad_with_probs(x, some, mask, counts, 4)
    for what, one, other in zip(("padded rows", "padded probabilities"), own, padded):
        exact(what, one, other)
    if padded[3] is not None:
        exact("pad_offsets", own[3], padded[3])
    exact("target_tokens_per_expert", own[4], padded[4])
    near("sums of padded rows", moe.moe_unpermute(y, own[2], some, x.shape, pad_offsets=own[3]), back)

    # Chunks, of which one has no row, with rows behind the last.
    sizes = torch.tensor([3, 0, tokens - 6, 1], dtype=torch.int32)
    order, p = torch.tensor([2, 3, 0, 1], dtype=torch.int32), torch.rand(tokens)

    def sort(of):
        a, b = x.clone().requires_grad_(), p.clone().requires_grad_()
        y, carried = of.moe_sort_chunks_by_index_with_probs(a, b, sizes, order)
        only = of.moe_sort_chunks_by_index(a, sizes, order)
        return y, carried, only, *torch.autograd.grad((y, carried), (a, b), (gz, p))

    with on_cpu():
        theirs = sort(te)
    for what, one, other in zip(("chunks", "their probabilities", "chunks alone", "gradient", "its probabilities"), sort(moe), theirs):
        exact(what, one, other)


def main():
    te = transformer_engine.pytorch(sys.argv[1])
    te.triton_permutation.torch = Torch()
    for kernel in vars(te.triton_permutation).values():
        # A search for the fastest block needs a GPU.
        if hasattr(kernel, "configs"):
            kernel.configs = kernel.configs[:1]
    for sizes in [(13, 5, 70, 2), (24, 8, 16, 8), (40, 33, 65, 3), (9, 1, 4, 1)]:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            compared(te, *sizes, dtype)
            print(f"{sizes[0]} tokens, {sizes[1]} experts, {sizes[2]} columns, top {sizes[3]}, {dtype}: as TransformerEngine", flush=True)


if __name__ == "__main__":
    main()
