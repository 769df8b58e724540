"""Sweeps: the spec of a grid, its points and runs, their files, and their statistics.

Entered by `cli`, `pipeline` and `studies`.
"""
