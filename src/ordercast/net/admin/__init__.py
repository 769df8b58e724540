"""Frames between clients and daemons, and their way over TCP.

Entered by `client` and `daemon`.
"""
