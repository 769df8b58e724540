"""The simulator: a world in virtual time that drives the protocol objects and attacks them.

`simulate(config, seed)` is a pure function of plain data: the same code, config and seed give the
same history in any process on any machine. docs/simulator.md tells how to use it.
"""
