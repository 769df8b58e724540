"""Broken variants of the protocols. Each takes one argument away, and a test must catch it."""
