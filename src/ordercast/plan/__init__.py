"""Choosing a structure for a group table, saying why, and drawing it.

`objectives` says what a structure costs, `advice` compares the builders and gives reasons,
`layout` and `drawing` make the picture, `overview` the one of a table too large to draw.
"""
