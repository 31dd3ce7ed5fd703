"""The dtypes that numpy, torch and Landfall share, by name; bfloat16 is numpy's with ml_dtypes alone."""

DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"]
