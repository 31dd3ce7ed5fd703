"""Landfall: a tensor engine in which every result lands in the memory you gave it."""
