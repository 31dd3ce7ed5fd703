"""Fixtures of the tests of the package."""

import pytest


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    """Each library of data frames that is installed."""
    pytest.importorskip(request.param)
    return request.param
