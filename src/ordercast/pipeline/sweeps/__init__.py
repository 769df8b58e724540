"""Sweeps: the spec of a grid, its points and runs, what is kept of them, and their statistics.

The verbs that a sweep runs are named by import path, so this room does not know who measures.
The face above it (`ordercast.pipeline.grids`) and the studies enter.
"""
