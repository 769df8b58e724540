"""A site as a process of its own: its ways in for clients, its health and metrics, its log.

Entered by `cli`, and by `bench`, which takes the choice of an event loop from here.
"""
