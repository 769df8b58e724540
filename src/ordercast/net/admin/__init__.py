"""The frames between clients and daemons over a local socket. Only `client` and `daemon` enter."""
