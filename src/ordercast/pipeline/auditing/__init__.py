"""The exact audit of histories of any size: docs/audit.md has the algorithm and its argument.

`face` is what callers see; `plan` drives the steps; `by_message` and `by_part` judge a share of the
rows with NumPy alone, so that the same code runs on Spark and, for tests, without it.
"""
