"""Arrays in nested dictionaries, lists and tuples, and the same arrays by dotted names.

params = {"layers": [{"weight": w0, "bias": b0}, {"weight": w1, "bias": b1}], "head": w2}
landfall.save("model.safetensors", landfall.nested.flatten(params))   # layers.0.weight, layers.0.bias, ..., head
params = landfall.nested.unflatten(landfall.load("model.safetensors"), like=params)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._landfall import Value
from .errors import ArgumentError

__all__ = ["flatten", "unflatten"]


def _is_nested(given: Any) -> bool:
    return isinstance(given, (Mapping, list, tuple))


def _entries(nested: Any, name: str) -> list[tuple[str, Any]]:
    """The names of what a dictionary, list or tuple has, and what it has."""
    if not isinstance(nested, Mapping):
        return [(str(place), entry) for place, entry in enumerate(nested)]
    for key in nested:
        if not isinstance(key, str):
            raise ArgumentError(f"{name or 'the dictionary'} has the key {key!r}; a name is a text")
    return list(nested.items())


def _leaves(nested: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What is no dictionary, list or tuple, by dotted name."""
    if not _is_nested(nested):
        yield name, nested
        return
    for key, entry in _entries(nested, name):
        yield from _leaves(entry, f"{name}.{key}" if name else key)


def flatten(nested: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """The arrays by dotted name, in order: the keys of dictionaries and places in lists and tuples, such as `layers.0.weight`.

    A key may have dots itself, as those of a state dictionary of torch, unless two arrays get one name. What is neither an array nor a value of
    a traced function is an error that has its name."""
    if not _is_nested(nested):
        raise ArgumentError(
            f"{nested!r} is a {type(nested).__qualname__}; it must be a dictionary, a list or a tuple of arrays"
        )
    flat: dict[str, Any] = {}
    for name, leaf in _leaves(nested, ""):
        if not isinstance(leaf, Value) and not hasattr(leaf, "__dlpack__"):
            made = "call it, and give what it returns" if callable(leaf) else "make one with landfall.tensor(..)"
            kind = "function" if callable(leaf) else type(leaf).__qualname__
            raise ArgumentError(f"{name} is {leaf!r}, a {kind}; it must be an array: {made}")
        if name in flat:
            raise ArgumentError(
                f"two arrays have the name {name}, one by a key with a dot in it and one by nested keys; rename one of them"
            )
        flat[name] = leaf
    return flat


def unflatten(flat: Mapping[str, Any], like: Any = None) -> Any:
    """What stands under dotted names as nested dictionaries and lists: those of `like`, or, without it, a dictionary for each name before a dot,
    and a list where the names below are 0, 1, and so on.

    With `like` each of its arrays has its name in `flat`, and `flat` has no other names."""
    if like is None:
        return _nested(flat)
    named = [name for name, _ in _leaves(like, "")]
    missing = [name for name in named if name not in flat]
    unknown = sorted(flat.keys() - set(named))
    if missing or unknown:
        wrong = f"{missing[0]} is missing" if missing else f"there is no place for {unknown[0]}"
        raise ArgumentError(f"{wrong}; the names are {', '.join(named)}")
    return _like(flat, like, "")


def _like(flat: Mapping[str, Any], like: Any, name: str) -> Any:
    if not _is_nested(like):
        return flat[name]
    entries = {key: _like(flat, entry, f"{name}.{key}" if name else key) for key, entry in _entries(like, name)}
    if isinstance(like, Mapping):
        return entries
    if hasattr(like, "_make"):
        # A named tuple.
        return like._make(entries.values())
    return list(entries.values()) if isinstance(like, list) else tuple(entries.values())


def _nested(flat: Mapping[str, Any]) -> Any:
    below: dict[str, dict[str, Any]] = {}
    for name, entry in flat.items():
        first, _, rest = name.partition(".")
        if "" in (group := below.setdefault(first, {})) or (group and not rest):
            raise ArgumentError(
                f"{first} is the name of an array and of others below it; give one of them another name"
            )
        group[rest] = entry
    made = {first: group[""] if "" in group else _nested(group) for first, group in below.items()}
    places = [str(place) for place in range(len(made))]
    return [made[place] for place in places] if made and set(made) == set(places) else made
