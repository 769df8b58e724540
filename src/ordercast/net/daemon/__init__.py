"""A site as a process of its own: its ways in for clients, its health and metrics, its log.

Only the command enters; the benchmark takes its choice of an event loop from here.
"""
