"""What a cluster is on this machine: its file, the paths and sockets of its sites, its processes.

The lowest room of the runtime: it imports no other room of `net`. Entered by `admin`, `bench`,
`cli`, `client`, `daemon`, `link`, `net`, `site`, `store` and `web`.
"""
