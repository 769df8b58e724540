"""From a group table to the structure that carries its messages ([GS] §3.1).

`forest.Forest` is the result; one file per builder (`greedy`, `star`, `balanced`), `metrics` says
what a forest costs, `verify` whether it is correct, `tend` changes one without rebuilding it.
"""
