"""Replicated state machines on top of a node, by its public face.

Users enter; no other room does.
"""
