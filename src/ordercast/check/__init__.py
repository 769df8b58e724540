"""Judges of histories: one file per check of docs/checks.md, verdict and smallest witness."""
