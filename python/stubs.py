"""Writes the type stubs of `landfall.ops` and of the methods of `landfall.Value` from the engine's tables: `python stubs.py`, or with
`--check` only compares."""

import inspect
import keyword
import math
import pathlib
import sys

from landfall import Value, ops

PATH = pathlib.Path(__file__).parent / "landfall" / "ops.pyi"
#: The stub that has the class `Value`, in which the methods stand between two lines.
VALUE_PATH = PATH.with_name("_landfall.pyi")
START = "    # Methods of the table, written by stubs.py.\n    # fmt: off\n"
END = "    # fmt: on\n"
#: Methods that give two values.
PAIRS = {"largest", "lstm", "sort"}

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


def method(name: str) -> str:
    """The declaration of a method of a value."""
    made = vars(Value)[name]
    types, shown, last = dict(made._annotations), ["self"], None
    for parameter in list(inspect.signature(made).parameters.values())[1:]:
        several = parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            shown.append("*")
        last = parameter.kind
        of_values = several and types[parameter.name].startswith("Operand")
        kind = "Value | Sequence[Value]" if of_values else types[parameter.name]
        text = f"{'*' if several else ''}{parameter.name}: {kind}"
        if parameter.default is not parameter.empty:
            is_literal = not isinstance(parameter.default, float) or math.isfinite(parameter.default)
            text += f" = {parameter.default!r}" if is_literal else " = ..."
        shown.append(text)
    gives = "tuple[Value, Value]" if name in PAIRS else "Value"
    return f"    def {name}({', '.join(shown)}) -> {gives}: ...\n"


def methods() -> str:
    """The declarations of the methods of the table; one whose name is a word of Python's has an operator instead."""
    names = (name for name, made in vars(Value).items() if type(made).__name__ == "ValueMethod")
    return "".join(method(name) for name in sorted(names) if not keyword.iskeyword(name))


def value_text() -> str:
    """The whole stub with the class `Value`, with the methods of the table."""
    before, rest = VALUE_PATH.read_text(encoding="utf-8").split(START)
    _, after = rest.split(END)
    return before + START + methods() + END + after


def main() -> int:
    """Writes or compares."""
    status = 0
    for path, made in ((PATH, text), (VALUE_PATH, value_text)):
        if "--check" not in sys.argv:
            path.write_text(made(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != made():
            print(f"{path.name} is not what the op table says; run stubs.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
