"""Exceptions of the package: each derives from `Error` and from the built-in exception that says the same."""

__all__ = [
    "ArgumentError",
    "DeviceError",
    "Error",
    "FileError",
    "InvalidValueError",
    "MissingColumnError",
    "MissingPackageError",
    "NonFiniteError",
    "NotFittedError",
]


class Error(Exception):
    """Anything that Landfall refuses or that fails in it."""


class ArgumentError(Error, TypeError):
    """Another number of arguments, an unknown keyword, or an argument of another kind."""


class DeviceError(Error, RuntimeError):
    """A device that is absent or fails, or arguments on different devices."""


class InvalidValueError(Error, ValueError):
    """A setting, a frame or a file that is not as it must be."""


class MissingColumnError(Error, KeyError):
    """A column that is not there."""

    # A KeyError quotes its message.
    __str__ = Exception.__str__


class FileError(Error, OSError):
    """A file or a folder that cannot be read or written, or that is not what it must be."""


class NonFiniteError(Error, ArithmeticError):
    """A training step that gave infinity or no number."""


class NotFittedError(Error, RuntimeError):
    """A forecaster without a run, or whose run is not complete."""


class MissingPackageError(Error, ImportError):
    """An optional package that is not installed."""
