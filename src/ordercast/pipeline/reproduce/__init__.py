"""The papers' tables and figures, redone: one file per paper, figures, and a page with all of them.

A reproduction (`kinds`) says which points to run, what to draw and what to compare with the paper's
words; `run` does it on the caller's Spark session, with the machinery of sweeps.
"""
