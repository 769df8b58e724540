"""Frames between clients and daemons, and their way over TCP. Only `client` and `daemon` enter."""
