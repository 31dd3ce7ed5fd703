"""Landfall: a tensor engine in which every result lands in the memory you gave it."""

from . import errors
from .errors import Error
from .forecaster import BaselineWarning, DataWarning, Forecaster

__all__ = ["BaselineWarning", "DataWarning", "Error", "Forecaster", "errors"]
