"""Replicated state machines on top of a node. They use only its public methods.

Entered by users.
"""
