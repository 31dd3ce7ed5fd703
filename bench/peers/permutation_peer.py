"""Peer of the routing rows: TransformerEngine's Triton kernels, one product of cuBLAS, a copy. See protocol.py for how it is
talked to.

The kernels are those of the installed package `transformer_engine`, in its file common/triton/permutation.py, or those of the
file that the environment variable TRANSFORMER_ENGINE_PERMUTATION names. The file needs torch, triton and packaging alone, so the rest of
the package is not imported. Their maps, sizes of blocks and grids are those of the package's PyTorch front end.

Modes: transformer-engine; cublas and copy, the yardsticks of products by expert and of kernels that move rows. Each step is
one CUDA graph on tensors made beforehand: a read of a buffer five times as large as an H200's L2, then the calls of the row.
The time of the reads alone is taken off, as on our side.
"""

import functools
import importlib.util
import os
import sys
from pathlib import Path

import protocol
import rows

TRANSFORMER_ENGINE, CUBLAS, COPY = "transformer-engine", "cublas", "copy"
MODES = {"cpu": [], "cuda": [TRANSFORMER_ENGINE, CUBLAS, COPY]}
args = protocol.arguments(MODES)

import torch  # noqa: E402  (after the number of threads is set)
import triton  # noqa: E402

from cuda_graph import Captured  # noqa: E402

DEVICE = args.device
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
FLUSH = 1 << 28
# Tokens that one block of the map's first two kernels takes.
MAP_BLOCK = 1024
torch.backends.cuda.matmul.allow_tf32 = False


@functools.cache
def kernels():
    """The module of the kernels."""
    path = os.environ.get("TRANSFORMER_ENGINE_PERMUTATION")
    if path is None:
        package = importlib.util.find_spec("transformer_engine")
        if package is None:
            raise ModuleNotFoundError(
                "no package transformer_engine; install it, or name its file common/triton/permutation.py in "
                "TRANSFORMER_ENGINE_PERMUTATION"
            )
        path = Path(package.submodule_search_locations[0]) / "common/triton/permutation.py"
    spec = importlib.util.spec_from_file_location("transformer_engine_permutation", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def random(name, shape, dtype):
    """A tensor that rows share, for arguments or (by another name) results: each row would fill gigabytes of its own."""
    return torch.empty(shape, dtype=dtype, device=DEVICE).normal_()


def result(shape, dtype):
    return random("result", shape, dtype)


def empty(shape, dtype):
    return torch.empty(shape, dtype=dtype, device=DEVICE)


class Layer:
    """The tensors and calls of a row."""

    def __init__(self, row, dtype):
        op, sizes = rows.parse_op(row)
        self.op, self.zipf, self.dtype = op.removesuffix("-zipf"), op.endswith("-zipf"), dtype
        self.tokens, self.hidden, self.experts, self.chosen, self.columns = sizes + [1] * (5 - len(sizes))
        self.rows = self.tokens * self.chosen
        # Blocks of the kernels that move rows; triton's own search finds the size of a block.
        self.grid = lambda meta: (self.tokens, triton.cdiv(self.hidden, meta["BLOCK_SIZE"]))

    def of_tokens(self):
        return random("tokens", (self.tokens, self.hidden), self.dtype)

    def of_rows(self):
        return random("rows", (self.rows, self.hidden), self.dtype)

    def of_pairs(self):
        return random("pairs", (self.tokens, self.experts), torch.float32)

    def map(self):
        """Builds the map of a routing; the tensor that it is in."""
        torch.manual_seed(2021)
        weights = torch.ones(self.experts, device=DEVICE)
        if self.zipf:
            weights /= torch.arange(1, self.experts + 1, device=DEVICE)
        experts = torch.multinomial(weights.expand(self.tokens, -1), self.chosen)
        cell = torch.int32 if self.op == "route-map-i32" else torch.bool
        routed = torch.zeros(self.tokens, self.experts, dtype=cell, device=DEVICE).scatter_(1, experts, 1)
        row_ids = empty((self.tokens, 2 * self.experts + 1), torch.int32)
        blocks = (self.experts, triton.cdiv(self.tokens, MAP_BLOCK))
        sums = empty(blocks, torch.int32)
        strides = dict(
            stride_row_id_map_token=row_ids.stride(0), stride_row_id_map_expert=row_ids.stride(1), row_id_map_ptr=row_ids
        )

        def call():
            kernels()._row_id_map_pass_1_kernel[blocks](
                routing_map_ptr=routed, num_tokens=self.tokens, workspace_ptr=sums, BLOCK_SIZE=MAP_BLOCK, **strides,
                stride_routing_map_token=routed.stride(0), stride_routing_map_expert=routed.stride(1),
            )
            kernels()._row_id_map_pass_2_kernel[blocks](
                workspace_ptr=sums, num_tokens=self.tokens, BLOCK_SIZE=MAP_BLOCK, **strides,
                WORKSPACE_LOAD_WIDTH=triton.next_power_of_2(sums.numel()),
            )
            kernels()._row_id_map_pass_3_kernel[(self.tokens,)](
                num_experts=self.experts, LOAD_SIZE=triton.next_power_of_2(self.experts), **strides
            )
            return row_ids

        return call

    def mapped(self):
        """A built map as kernels take it."""
        row_ids = self.map()()
        counts = row_ids[:, -1]
        if not bool((counts == self.chosen).all()):
            raise ValueError(f"the map has {counts.min()} to {counts.max()} experts a token, not {self.chosen}")
        return row_ids, dict(
            row_id_map_ptr=row_ids, stride_row_id_map_token=row_ids.stride(0), stride_row_id_map_expert=row_ids.stride(1)
        )

    def permute(self):
        row_ids, mapped = self.mapped()
        x, probs = self.of_tokens(), self.of_pairs()
        y, permuted = result((self.rows, self.hidden), self.dtype), result((self.rows,), torch.float32)
        no_scale = dict.fromkeys(
            ["scale_ptr", "permuted_scale_ptr", "stride_scale_token", "stride_scale_hidden",
             "stride_permuted_scale_token", "stride_permuted_scale_hidden"]
        )

        def call():
            kernels()._permute_kernel[self.grid](
                input_ptr=x, probs_ptr=probs, pad_offsets_ptr=None, output_buf_ptr=y, permuted_probs_buf_ptr=permuted,
                scale_hidden_dim=0, num_tokens=self.tokens, num_out_tokens=self.rows, **mapped, **no_scale,
                stride_input_token=x.stride(0), stride_input_hidden=x.stride(1),
                stride_output_token=y.stride(0), stride_output_hidden=y.stride(1),
                stride_probs_token=probs.stride(0), stride_probs_expert=probs.stride(1),
                stride_permuted_probs_token=permuted.stride(0), output_ptr=y, permuted_probs_ptr=permuted,
                num_experts=self.experts, hidden_size=self.hidden, PERMUTE_PROBS=True, PERMUTE_SCALE=False,
                FUSION_PAD=False,
            )

        def check():
            at, experts = self.pairs_of(row_ids, -1)
            torch.testing.assert_close(y[at], x[-1].expand(self.chosen, -1))
            torch.testing.assert_close(permuted[at], probs[-1, experts])

        return call, check

    def merged(self, weighted):
        """The kernel of an unpermute: with weights, or as the gradient of a permute with probabilities."""
        row_ids, mapped = self.mapped()
        y, z = self.of_rows(), result((self.tokens, self.hidden), self.dtype)
        weights = self.of_pairs() if weighted else None
        values = None if weighted else random("values", (self.rows,), torch.float32)
        by_pair = None if weighted else result((self.tokens, self.experts), torch.float32)
        stride = lambda tensor, axis: None if tensor is None else tensor.stride(axis)  # noqa: E731

        def call():
            kernels()._unpermute_kernel[self.grid](
                input_ptr=y, merging_probs_ptr=weights, permuted_probs_ptr=values, pad_offsets_ptr=None,
                output_buf_ptr=z, unpermuted_probs_buf_ptr=by_pair, **mapped,
                stride_input_token=y.stride(0), stride_input_hidden=y.stride(1),
                stride_output_token=z.stride(0), stride_output_hidden=z.stride(1),
                stride_merging_probs_token=stride(weights, 0), stride_merging_probs_expert=stride(weights, 1),
                stride_permuted_probs_token=stride(values, 0), stride_unpermuted_probs_token=stride(by_pair, 0),
                stride_unpermuted_probs_expert=stride(by_pair, 1), output_ptr=z, unpermuted_probs_ptr=by_pair,
                num_experts=self.experts, hidden_size=self.hidden,
                PROBS_LOAD_WIDTH=triton.next_power_of_2(self.experts), WITH_MERGING_PROBS=weighted,
                PERMUTE_PROBS=not weighted, FUSION_UNPAD=False,
            )

        def check():
            at, experts = self.pairs_of(row_ids, -1)
            factors = weights[-1, experts] if weighted else torch.ones(self.chosen, device=DEVICE)
            torch.testing.assert_close(z[-1], (factors[:, None] * y[at].float()).sum(0).to(self.dtype), rtol=0.02, atol=0.02)
            if not weighted:
                torch.testing.assert_close(by_pair[-1, experts], values[at])

        return call, check

    def permute_grad(self):
        return self.merged(weighted=False)

    def unpermute(self):
        return self.merged(weighted=True)

    def unpermute_grad(self):
        row_ids, mapped = self.mapped()
        gz, y, weights = self.of_tokens(), self.of_rows(), self.of_pairs()
        gy, gw = result((self.rows, self.hidden), self.dtype), result((self.tokens, self.experts), torch.float32)

        def call():
            kernels()._unpermute_bwd_with_merging_probs_kernel[(self.tokens,)](
                fwd_output_grad_ptr=gz, fwd_input_ptr=y, merging_probs_ptr=weights, pad_offsets_ptr=None, **mapped,
                stride_fwd_output_grad_token=gz.stride(0), stride_fwd_output_grad_hidden=gz.stride(1),
                stride_fwd_input_grad_token=gy.stride(0), stride_fwd_input_grad_hidden=gy.stride(1),
                stride_fwd_input_token=y.stride(0), stride_fwd_input_hidden=y.stride(1),
                stride_merging_probs_token=weights.stride(0), stride_merging_probs_expert=weights.stride(1),
                stride_merging_probs_grad_token=gw.stride(0), stride_merging_probs_grad_expert=gw.stride(1),
                fwd_input_grad_ptr=gy, merging_probs_grad_ptr=gw, num_experts=self.experts, hidden_size=self.hidden,
                PROBS_LOAD_WIDTH=triton.next_power_of_2(self.experts), FUSION_UNPAD=False,
            )

        def check():
            at, experts = self.pairs_of(row_ids, -1)
            factors = weights[-1, experts]
            expected = (factors[:, None] * gz[-1].float()).to(self.dtype)
            torch.testing.assert_close(gy[at], expected, rtol=0.02, atol=0.02)
            expected = (y[at].float() * gz[-1].float()).sum(1)
            torch.testing.assert_close(gw[-1, experts], expected, rtol=1e-3, atol=0.1)

        return call, check

    def pairs_of(self, row_ids, token):
        """Rows and experts of a token's pairs."""
        cells = row_ids[token].long()
        return cells[: self.chosen], cells[self.experts : self.experts + self.chosen]

    def chunks(self):
        """Builds a map of chunks of two sizes in a random order; the tensor that it is in."""
        torch.manual_seed(2021)
        mean = self.tokens // self.experts
        sizes = [mean - mean // 2 + i % 2 * (mean // 2 * 2) for i in range(self.experts)]
        sizes = torch.tensor(sizes, dtype=torch.int32, device=DEVICE)
        order = torch.randperm(self.experts, device=DEVICE).int()
        places = empty(self.tokens, torch.int32)

        def call():
            kernels()._make_chunk_sort_map_kernel[(self.tokens,)](
                split_sizes_ptr=sizes, sorted_indices_ptr=order, dst_rows_ptr=places, num_splits=self.experts,
                IDX_LOAD_WIDTH=triton.next_power_of_2(self.experts),
            )
            return places

        return call

    def sort_chunks(self):
        places = self.chunks()()
        if not torch.equal(places.sort().values, torch.arange(self.tokens, device=DEVICE).int()):
            raise ValueError("the map of chunks is no permutation")
        x, probs = self.of_tokens(), random("values", (self.tokens,), torch.float32)
        y, sorted_probs = result(x.shape, self.dtype), result(probs.shape, torch.float32)

        def call():
            kernels()._sort_chunks_by_map_kernel[self.grid](
                input_ptr=x, row_id_map_ptr=places, probs_ptr=probs, output_buf_ptr=y,
                stride_input_token=x.stride(0), stride_input_hidden=x.stride(1),
                stride_output_token=y.stride(0), stride_output_hidden=y.stride(1),
                stride_probs_token=probs.stride(0), stride_permuted_probs_token=sorted_probs.stride(0),
                output_ptr=y, permuted_probs_ptr=sorted_probs, hidden_size=self.hidden, PERMUTE_PROBS=True,
                FORWARD=True,
            )

        def check():
            torch.testing.assert_close(y[places.long()[-1]], x[-1])
            torch.testing.assert_close(sorted_probs[places.long()], probs)

        return call, check

    def step(self, mode):
        """The call of the row, and a check of what it wrote; None without such a mode."""
        unchecked = lambda: None  # noqa: E731
        if self.op == "routing-copy" and mode == COPY:
            shape = (self.tokens * (self.chosen + 1) // 2, self.hidden)
            x, y = random("copied", shape, self.dtype), result(shape, self.dtype)
            return lambda: y.copy_(x), unchecked
        if self.op in ("grouped-matmul", "plain-matmul") and mode == CUBLAS:
            x, w = self.of_rows(), random("matrix", (self.hidden, self.columns), self.dtype)
            out = result((self.rows, self.columns), self.dtype)
            return lambda: torch.mm(x, w, out=out), unchecked
        if mode != TRANSFORMER_ENGINE:
            return None
        if self.op in ("route-map", "route-map-i32", "chunk-map"):
            return (self.chunks if self.op == "chunk-map" else self.map)(), unchecked
        movers = dict(
            permute=self.permute, permute_grad=self.permute_grad, unpermute=self.unpermute,
            unpermute_grad=self.unpermute_grad, sort_chunks=self.sort_chunks,
        )
        mover = movers.get(self.op.replace("-", "_"))
        return mover and mover()


@functools.cache
def flush():
    """Reads a buffer, after which an L2 holds that alone."""
    buffer = random("flush", (FLUSH // (4 << 15), 1 << 15), torch.float32)
    out = empty(buffer.shape[0], torch.float32)
    return lambda: torch.sum(buffer, 1, out=out)


class Cold(protocol.Timed):
    """Steps that each begin with a flush, whose time is taken off."""

    def __init__(self, call):
        self.whole = Captured(lambda: (flush()(), call()))
        self.flushes = Captured(flush())
        super().__init__(lambda steps: self.elapsed(self.whole, steps))

    @staticmethod
    def elapsed(replay, steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(steps):
            replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def time(self, steps):
        return self.elapsed(self.whole, steps) - self.elapsed(self.flushes, steps)


def build(row, dtype, mode):
    made = Layer(row, DTYPES[dtype]).step(mode)
    if made is None:
        return None
    call, check = made
    call()
    check()
    return Cold(call)


if __name__ == "__main__":
    if TRANSFORMER_ENGINE in (args.modes or "").split(","):
        kernels()
    protocol.serve(args, "permutation", f"triton {triton.__version__}", MODES[DEVICE], build, rows.is_routing)
