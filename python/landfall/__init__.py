"""Landfall: a tensor engine in which every result lands in the memory you gave it."""

from . import errors
from .errors import Error
from .forecaster import DataWarning, Forecaster

__all__ = ["DataWarning", "Error", "Forecaster", "errors"]
