"""The exact audit of histories of any size: docs/audit.md has the algorithm and its argument.

Callers enter by `face`. Only `face`, `frames` and `spark_work` know Spark: all else judges a share
of the rows with NumPy alone, so that the same code runs on Spark and, for few rows, at the driver.
"""
