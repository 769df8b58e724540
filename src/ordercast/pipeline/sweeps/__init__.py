"""Sweeps: the spec of a grid, its points and runs, what is kept of them, and their statistics.

Entered by `cli`, `pipeline` and `studies`.
"""
