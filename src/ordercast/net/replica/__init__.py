"""Replicated state machines on top of a node. They use only its public methods.

Users enter; no other room does.
"""
