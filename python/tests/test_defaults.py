"""What a call leaves out is the same in an eager call, in a traced function and in the method of a value, or it must be given."""

import inspect

import numpy as np
import pytest
from test_ops import cases, results

import landfall as lf

# Methods that are other functions than the op of their name.
OTHERS = {"permute", "dropout", "gru", "lstm", "where"}


def required(name):
    parameters = inspect.signature(getattr(lf.ops, name)).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}


def is_same(got, want):
    return len(got) == len(want) and all(
        g.dtype == w.dtype and g.shape == w.shape and g.astype("f8").numpy().tobytes() == w.astype("f8").numpy().tobytes()
        for g, w in zip(got, want)
    )


def shortened(name):
    """Calls of an op that leave out what may be left out."""
    op, keep, seen = getattr(lf.ops, name), required(name), 0
    for keywords, args, _ in cases(name):
        keywords = {key: value for key, value in keywords.items() if key in keep}
        try:
            want = results(op(*[a.copy() for a in args], **keywords))
        except lf.Error:
            # Arguments that only a keyword that is left out makes one of the op's.
            continue
        yield op, keywords, args, want
        seen += 1
        if seen == 6:
            return


@pytest.mark.parametrize("name", lf.ops.__all__)
def test_all_forms_agree(name):
    compared = methods = 0
    for op, keywords, args, want in shortened(name):
        defaults = {
            p.name: p.default
            for p in inspect.signature(op).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name != "out" and p.default is not p.empty
        }
        # What help shows is what is computed.
        assert is_same(results(op(*[a.copy() for a in args], **{**defaults, **keywords})), want), keywords
        compared += 1
        if not args or not all(g.size for g in want):
            continue
        if op._gives != "Any":
            traced = lf.compile(lambda *values: op(*values, **keywords), *args)(*args)
            assert is_same(results(traced), want), keywords
        has = []

        def method(first, *rest):
            has.append(name in dir(first) and name not in OTHERS)
            return getattr(first, name)(*rest, **keywords) if has[0] else first

        if op._gives != "Any":
            called = lf.compile(method, *args)(*args)
            if has[0]:
                got = results(called)
                assert is_same(got, want[: len(got)]), keywords
                methods += 1
    assert compared, f"{name} was not compared"


@pytest.mark.parametrize("name", [name for name in lf.ops.__all__ if required(name)])
def test_what_has_no_default_is_asked_for(name):
    op = getattr(lf.ops, name)
    keywords, args, _ = next(cases(name))
    for key in required(name):
        given = {other: value for other, value in keywords.items() if other != key}
        with pytest.raises(lf.ArgumentError, match=f"needs {key}"):
            op(*args, **given)
        if args and op._gives != "Any":
            with pytest.raises(lf.ArgumentError, match=f"needs {key}"):
                lf.compile(lambda *values: op(*values, **given), *args)
    assert f"{sorted(required(name))[0]}: " in op.__doc__ and "which must be given" in op.__doc__


def test_defaults_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    index = torch.randint(0, 2, (2, 3, 4))
    for got, want in [
        (lf.ops.sum(x), x.sum()),
        (lf.ops.mean(x), x.mean()),
        (lf.ops.max(x), x.max()),
        (lf.ops.prod(x), x.prod()),
        (lf.ops.sort(x)[0], torch.sort(x)[0]),
        (lf.ops.concat(x, x), torch.cat([x, x])),
        (lf.ops.gather(x, index, axis=0), torch.gather(x, 0, index)),
        (lf.ops.gelu(x), torch.nn.functional.gelu(x)),
        (lf.ops.leaky_relu(x), torch.nn.functional.leaky_relu(x)),
        (lf.ops.layer_norm(x, torch.ones(4).double(), torch.zeros(4).double())[0], torch.nn.functional.layer_norm(x, (4,))),
        (lf.ops.affine(x), x),
        (lf.ops.clamp(x * 9), x * 9),
        (lf.ops.softmax(x), torch.softmax(x, -1)),
    ]:
        torch.testing.assert_close(torch.from_dlpack(got), want)
    weight, small = torch.ones(4, dtype=torch.float64), 1e-6 * x
    norm = lf.compile(lambda x, weight: x.rms_norm(weight), small, weight)(small, weight)
    torch.testing.assert_close(torch.from_dlpack(norm), torch.nn.functional.rms_norm(small, (4,)))
