"""Epochs: the voters' log, the layout it folds to, and how a site goes from one epoch to the next.

docs/epochs.md has the argument; [GS] §5.1 is where it comes from, errata GS-12 what was mended.
"""
