"""Exceptions of the package: each derives from `Error` and from the built-in exception that says the same."""

__all__ = [
    "AliasError",
    "ArgumentError",
    "AttributeValueError",
    "DTypeError",
    "DeviceError",
    "Error",
    "ExchangeError",
    "FileError",
    "IndexOutOfRangeError",
    "InvalidValueError",
    "MissingColumnError",
    "MissingPackageError",
    "NonFiniteError",
    "NotFittedError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "ShapeError",
]


class Error(Exception):
    """Anything that Landfall refuses or that fails in it.

    An error of a forecaster says, beside its text, what it is about, each `None` where it is about none: `setting`, the
    setting or the argument; `source`, the file, or what else the data is called, with its `line` or `row`, and `column`.
    Rows of a data frame are counted from 0.
    """

    setting: "str | None" = None
    source: "str | None" = None
    line: "int | None" = None
    row: "int | None" = None
    column: "str | None" = None


class AliasError(Error, ValueError):
    """A destination shares memory with an argument, or another destination, that the op does not allow.

    `op` is the name of the op, `shapes` the dtype and shape of each argument as text, and `byte_ranges` the two ranges of
    bytes that meet, each as (start, end) from the first byte of either.
    """

    op: str
    shapes: "list[str]"
    byte_ranges: "list[tuple[int, int]]"


class ShapeError(Error, ValueError):
    """A shape, an axis or a layout that does not fit."""


class DTypeError(Error, TypeError):
    """A dtype that does not fit, or that Landfall does not have."""


class ArgumentError(Error, TypeError):
    """Another number of arguments, an unknown keyword, or an argument of another kind."""


class AttributeValueError(Error, ValueError):
    """A keyword with a value that the op does not take."""


class IndexOutOfRangeError(Error, IndexError):
    """An index outside of its axis."""


class OutOfMemoryError(Error, MemoryError):
    """A device without enough free memory."""


class DeviceError(Error, RuntimeError):
    """A device that is absent or fails, or arguments on different devices."""


class ReadOnlyError(Error, ValueError):
    """A destination that must not be written."""


class ExchangeError(Error, BufferError):
    """Memory that cannot be shared with another library as it is."""


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
