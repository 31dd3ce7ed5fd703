"""Writes the type stubs of `landfall.ops` from the op table: `python stubs.py`, or with `--check` only compares."""

import inspect
import math
import pathlib
import sys

from landfall import ops

PATH = pathlib.Path(__file__).parent / "landfall" / "ops.pyi"

HEAD = '''\
"""Every op of the engine: `ops.softmax(x, axis=-1, out=y)`."""

# Written by stubs.py from the op table.

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

from ._landfall import Array, DTypeLike, Tensor

Out = TypeVar("Out")
'''


def parameters(op: object) -> str:
    """The parameters of an op, without `out`."""
    types, shown, last = dict(op._annotations), [], None
    for parameter in inspect.signature(op).parameters.values():
        if last is parameter.POSITIONAL_ONLY is not parameter.kind:
            shown.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            shown.append("*")
        last = parameter.kind
        if parameter.name == "out":
            continue
        text = f"{parameter.name}: {types.get(parameter.name, op._takes)}"
        if parameter.kind is parameter.VAR_POSITIONAL:
            text = f"*{text}"
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is None:
            text += " | None = None"
        elif parameter.default is not parameter.empty:
            # A number that is not finite has no literal.
            is_literal = not isinstance(parameter.default, float) or math.isfinite(parameter.default)
            text += f" = {parameter.default!r}" if is_literal else " = ..."
        shown.append(text)
    return ", ".join(shown)


def stub(name: str) -> str:
    """The declarations of an op: without `out`, and with it."""
    op = getattr(ops, name)
    start = f"def {name}({parameters(op)}, out: "
    formula = op.__doc__.split("\n\n")[1].replace("\n", " ")
    doc = f'    r"""{formula}"""\n    ...\n'
    if op._gives == "Any":
        return f"{start}Any = None) -> Any:\n{doc}"
    return f"@overload\n{start}None = None) -> {op._gives}:\n{doc}\n@overload\n{start}Out) -> Out: ...\n"


def text() -> str:
    """The whole file."""
    names = ", ".join(f'"{name}"' for name in ops.__all__)
    return "\n".join([HEAD, f"__all__ = [{names}]\n", *map(stub, ops.__all__)])


def main() -> int:
    """Writes or compares."""
    if "--check" not in sys.argv:
        PATH.write_text(text(), encoding="utf-8")
        return 0
    if PATH.exists() and PATH.read_text(encoding="utf-8") == text():
        return 0
    print(f"{PATH.name} is not what the op table says; run stubs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
