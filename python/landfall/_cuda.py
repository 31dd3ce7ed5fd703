"""CUDA's libraries from the `nvidia-*` wheels (`pip install 'landfall-ml[cuda]'`), for systems that have none of their own."""

import ctypes
import importlib.util
import sys
from pathlib import Path

if sys.platform == "win32":
    _DRIVER = "nvcuda.dll"
    _LIBRARIES = ("nvrtc64_130_0.dll", "cublasLt64_13.dll")
    _FOLDER = "bin/x86_64"
else:
    _DRIVER = "libcuda.so.1"
    _LIBRARIES = ("libnvrtc.so.13", "libcublasLt.so.13")
    _FOLDER = "lib"


def preload() -> None:
    """Loads what the system lacks, so that the engine finds it by name. Without a driver there is nothing to load for."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return
    load_missing()


def load_missing() -> list[str]:
    """Loads the libraries that the system does not find from the wheels; the files that were loaded."""
    loaded = []
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            for file in (file for root in roots for file in sorted(Path(root).glob(f"*/{_FOLDER}/{name}"))):
                ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
                loaded.append(str(file))
                break
    return loaded
