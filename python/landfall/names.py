"""Names of other libraries: what is said of a function or method that is looked for by a name it does not have here."""

from __future__ import annotations

import difflib

from . import ops
from ._landfall import Value

#: What a name of PyTorch or numpy is, as a method of values.
OTHERS = {
    "view": "reshape",
    "flatten": "reshape(-1)",
    "ravel": "reshape(-1)",
    "cat": "concat",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "dot": "matmul",
    "var": "variance",
    "std": "standard_deviation",
    "topk": "largest",
    "expand": "broadcast_to",
    "narrow": "slice",
    "index_select": "take",
    "to": "cast",
    "type": "cast",
    "astype": "cast",
    "float": 'cast(dtype="float32")',
    "double": 'cast(dtype="float64")',
    "half": 'cast(dtype="float16")',
    "long": 'cast(dtype="int64")',
    "clip": "clamp",
    "clone": "copy",
    "contiguous": "copy",
    "reciprocal": "recip",
    "repeat": "tile",
    "swapaxes": "transpose",
    "t": "T",
    "mT": "transpose()",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "amax": "max",
    "amin": "min",
    "isnan": "is_nan",
    "isfinite": "is_finite",
    "backward": "gradients",
    "dim": "ndim",
    "expand_dims": "unsqueeze",
    "chunk": "slices, such as x[:, :8] and x[:, 8:]",
    "split": "slices, such as x[:, :8] and x[:, 8:]",
    "unbind": "slices, such as x[0] and x[1]",
    "einsum": "permute, reshape and matmul",
    "numel": "size",
    "remainder": "rem",
    "swapdims": "transpose",
    "kl_div": "kl_divergence",
    "full": "fill",
    "randn": "normal",
}

#: What needs the elements, which a value does not have.
CONTENTS = {"item", "tolist", "numpy", "cpu", "cuda", "data", "device", "grad", "requires_grad"}


def of_value(name: str) -> str:
    """Why a value has no method of this name, and what it has."""
    start = f"a value of a traced function has no {name!r}"
    if name in CONTENTS:
        return f"{start}, and no contents: return it, and read the program's result"
    if name in OTHERS:
        return f"{start}; it has {OTHERS[name]}"
    near = difflib.get_close_matches(name, [own for own in dir(Value) if not own.startswith("_")], 3, 0.75)
    return f"{start}; it has {', '.join(near)}; dir(value) lists all" if near else f"{start}; dir(value) lists what it has"


def elsewhere(name: str) -> str:
    """Where a function is that was looked for in this package or as a method of a tensor; nothing for a name that means nothing."""
    own = OTHERS.get(name, name)
    base = own.partition("(")[0]
    if name.startswith("_") or name in CONTENTS:
        return ""
    found = [f"landfall.ops.{base} computes it of arrays"] if base in ops.__all__ else []
    if hasattr(Value, base):
        call = own if base != own else f"{own}(..)"
        found.append(f"values have it as a method, and landfall.jit(lambda x: x.{call}) makes a function of arrays of it")
    elif own != name:
        found.append(f"write it with {own}, in a function for landfall.jit")
    return "".join(f"; {text}" for text in found)
