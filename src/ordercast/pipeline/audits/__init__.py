"""The exact audit of histories of any size: docs/audit.md has the algorithm and its argument.

There is one function for callers. Few modules know Spark: all else judges a share of the rows
with NumPy alone, so that the same code runs on Spark and, for few rows, at the driver. Entered by
`cli`, `following` and `pipeline`.
"""
