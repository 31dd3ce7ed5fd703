"""TransformerEngine's permutation as it is in its Python files, without its libraries: `pytorch(folder)`, `jax(folder)`.

`folder` holds the package `transformer_engine`, such as its wheel of Python files unpacked:

    pip download --no-deps transformer_engine && unzip -d FOLDER transformer_engine-*.whl

Its packages are entered without their `__init__.py`, which load the compiled libraries. What the files ask of these for other than the
permutation of unquantised tensors by masks is absent: quantised tensors are of no class, and maps of indices fail.
"""

import importlib
import pathlib
import sys
import types


def _package(folder, *names):
    """Packages in which modules are found, and nothing else."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(pathlib.Path(folder, *name.split(".")))]
        if not pathlib.Path(module.__path__[0]).is_dir():
            raise FileNotFoundError(f"{module.__path__[0]} is no folder; {folder} must hold the package transformer_engine")
        sys.modules[name] = module


def _module(name, **values):
    """A module that holds these alone."""
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


def pytorch(folder):
    """The module `transformer_engine.pytorch.permutation`."""
    base = "transformer_engine"
    _package(folder, base, f"{base}.common", f"{base}.common.triton", f"{base}.pytorch", f"{base}.pytorch.triton")
    _package(folder, f"{base}.pytorch.tensor")
    absent = type("Quantised", (), {})
    _module("transformer_engine_torch")
    _module(f"{base}.pytorch.constants", TE_DType={})
    _module(
        f"{base}.pytorch.quantized_tensor", QuantizedTensor=absent, _quantized_tensor_passthrough_ops=set()
    )
    for name, kind in [("float8", "Float8Tensor"), ("float8_blockwise", "Float8BlockwiseQTensor"), ("mxfp8", "MXFP8Tensor")]:
        _module(f"{base}.pytorch.tensor.{name}_tensor", **{kind: absent})
    return importlib.import_module(f"{base}.pytorch.permutation")


def jax(folder):
    """The module `transformer_engine.jax.permutation`, of which the functions in JAX's own ops work."""
    base = "transformer_engine"
    _package(folder, base, f"{base}.jax")
    return importlib.import_module(f"{base}.jax.permutation")
