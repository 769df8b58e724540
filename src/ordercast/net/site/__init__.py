"""A running site: the driver of the core, the node around it, and what an application holds.

Applications come in by `Node`. Entered by `bench`, `cli`, `client`, `daemon`, `net`, `pipeline`,
`replica` and users.
"""
