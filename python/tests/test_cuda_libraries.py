"""CUDA's libraries out of wheels: found without a path, and only where they are there."""

import importlib.util
import subprocess
import sys

import pytest

CHECK = """
import ctypes
from landfall import _cuda
_cuda.preload()
loaded = _cuda.load_missing()
for name in _cuda._LIBRARIES:
    ctypes.CDLL(name)
print(loaded)
"""


def test_libraries_of_wheels_are_found_by_name():
    spec = importlib.util.find_spec("nvidia")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the nvidia wheels are not installed")
    ran = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
