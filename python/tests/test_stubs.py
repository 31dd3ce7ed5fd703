"""The type stubs: those of the ops are the table's, and all are what the package has."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

import landfall

PYTHON = pathlib.Path(__file__).parent.parent


def run(folder, *command):
    """Runs Python in a folder without the package's sources, and returns its exit status and output."""
    done = subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, text=True, cwd=folder, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def test_stubs_of_ops_are_up_to_date():
    spec = importlib.util.spec_from_file_location("stubs", PYTHON / "stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    assert stubs.PATH.read_text(encoding="utf-8") == stubs.text(), "run python/stubs.py"
    assert stubs.VALUE_PATH.read_text(encoding="utf-8") == stubs.value_text(), "run python/stubs.py"


def test_stubs_agree_with_the_package(tmp_path):
    pytest.importorskip("mypy")
    config, allowed = PYTHON / "pyproject.toml", PYTHON / "tests" / "stubs-allowed.txt"
    options = ["--concise", "--allowlist", str(allowed), "--mypy-config-file", str(config)]
    status, text = run(tmp_path, "-m", "mypy.stubtest", "landfall", *options)
    assert status == 0, text


def test_users_code_is_checked(tmp_path):
    pytest.importorskip("mypy")
    code = tmp_path / "code.py"
    code.write_text(
        "import landfall as lf\n"
        "import numpy as np\n"
        "x = np.ones((2, 3), dtype=np.float32)\n"
        "reveal_type(lf.ops.softmax(x, axis=-1))\n"
        "reveal_type(lf.ops.softmax(x, axis=-1, out=x))\n"
        "lf.ops.softmax(x, axis='last')\n"
        "lf.ops.gelu(x, approximation='exact')\n"
        "reveal_type(lf.tensor([1.0]) + 1)\n"
    )
    _, text = run(tmp_path, "-m", "mypy", "--no-error-summary", code.name)
    lines = [line.removeprefix("code.py:") for line in text.splitlines()]
    assert [line.split(":")[0] for line in lines if "error: No overload" in line] == ["6", "7"], text
    assert '4: note: Revealed type is "landfall._landfall.Tensor"' in lines
    assert any(line.startswith("5: note") and "ndarray" in line for line in lines)
    assert '8: note: Revealed type is "landfall._landfall.Tensor"' in lines


def test_the_package_is_typed():
    assert (pathlib.Path(landfall.__file__).parent / "py.typed").exists()
