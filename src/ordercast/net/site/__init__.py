"""A running site: the driver of the core, the node around it, and what an application holds.

Applications come in by `Node`. Rooms above (`replica`, `daemon`, `client`) build on that face.
"""
