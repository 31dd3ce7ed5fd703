"""What `help` says of each method, and where a number that is not finite comes from."""

import inspect
import re

import numpy as np
import pytest

import landfall as lf

CLASSES = [lf.Value, lf.Tensor, lf.Program, lf.Function, lf.Buckets, lf.Trainer]
METHODS = [(c, name) for c in CLASSES for name in dir(c) if not name.startswith("_")]
AXES = {"axis", "axes", "axis0", "axis1"}


@pytest.mark.parametrize("of, name", METHODS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_each_method_has_a_document(of, name):
    made = getattr(of, name)
    text = inspect.getdoc(made) or ""
    assert len(text.split()) >= 2, "no sentence says what it is"
    if not callable(made):
        return
    takes = set(inspect.signature(made).parameters)
    if takes & AXES:
        assert re.search(r"\bax[ie]s\b", text), "nothing says what its axes are"
        assert "negative" in text.lower(), "nothing says that an axis may be negative"


def line_of(function, text):
    """Where a line with this text stands in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_the_first_value_that_is_not_finite_is_named_with_its_line():
    def f(x, weight):
        y = x * 2.0
        z = y.log() + 1.0
        w = z.exp() * weight
        return w.sum()

    x = np.array([1.0, 2.0, 0.0, 3.0], "f4")
    program = lf.compile(f, x, params={"weight": np.ones(4, "f4")})
    expected = rf"test_help.py:{line_of(f, 'y.log()')}: `z = y.log\(\) \+ 1.0` became non-finite \(first at element 2: -inf\) in ln"
    with pytest.raises(lf.NonFiniteError, match=expected):
        program.find_non_finite(x)
    # On what was given last, and by name.
    with pytest.raises(lf.NonFiniteError, match=expected):
        program.find_non_finite()
    with pytest.raises(lf.NonFiniteError, match=expected):
        program.find_non_finite(x=x)
    assert program.find_non_finite(x + 1) is None
    assert np.isfinite(program(x + 1).item())


def test_an_input_that_is_not_finite_is_named():
    x, weight = np.ones(3, "f4"), np.array([1, np.nan, 3], "f4")
    program = lf.compile(lambda x, weight: x * weight, x, params={"weight": weight})
    with pytest.raises(lf.NonFiniteError, match=r"the input weight became non-finite \(first at element 1: NaN\)"):
        program.find_non_finite(x)
    weight[1] = 2
    assert program.find_non_finite(x) is None
    with pytest.raises(lf.NonFiniteError, match="the input x"):
        program.find_non_finite(np.full(3, np.inf, "f4"))


def test_gradients_and_arrays_beside_values_are_searched():
    shift = np.array([0.0, 1.0], "f4")

    def f(x):
        loss = (x + shift).sqrt().sum()
        return loss.gradients([x])[0]

    program = lf.compile(f, np.ones(2, "f4"))
    with pytest.raises(lf.NonFiniteError, match=r"first at element 0: inf"):
        program.find_non_finite(np.zeros(2, "f4"))
    assert program.find_non_finite(np.ones(2, "f4")) is None


def test_a_program_that_has_nothing_to_run_on_says_so():
    program = lf.compile(lambda x: x + 1, lf.spec(3))
    with pytest.raises(lf.Error, match="its input x was never written"):
        program.find_non_finite()
    with pytest.raises(lf.ArgumentError, match="no argument y"):
        program.find_non_finite(y=np.ones(3, "f4"))
