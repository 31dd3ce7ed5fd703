"""The exceptions of Landfall: one base, and a class for each of Python's kinds."""


class Error(Exception):
    """Whatever Landfall refuses, or cannot do. Its message says what is wrong and what to do."""

    def __str__(self) -> str:
        # A KeyError would quote its message.
        return str(self.args[0]) if self.args else ""


class InvalidValueError(Error, ValueError):
    """A value, a frame or a file that is not as it must be."""


class InvalidTypeError(Error, TypeError):
    """An argument of the wrong type, or of an unknown name."""


class MissingColumnError(Error, KeyError):
    """A column that is not there."""


class FileError(Error, OSError):
    """A file or a folder that cannot be read or written, or that is not what it must be."""


class ComputeError(Error, RuntimeError):
    """A device that is not there or fails, or a step that gave no finite numbers."""


class NotFittedError(Error, RuntimeError):
    """A forecaster that was not fitted."""


class MissingPackageError(Error, ImportError):
    """An optional package that is not installed."""
