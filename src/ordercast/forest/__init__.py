"""From a group table to the structure that carries its messages ([GS] §3.1).

A builder makes a `Forest` from a table. The forest depends on the table alone, so every site works
it out for itself and all get the same.
"""
