"""Fixtures of the tests of the package."""

import pytest


def pytest_configure(config):
    """Runs of a few steps are no better than a baseline; the test of the warning expects it."""
    config.addinivalue_line("filterwarnings", "ignore::landfall.notices.BaselineWarning")


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    """Each library of data frames that is installed."""
    pytest.importorskip(request.param)
    return request.param
