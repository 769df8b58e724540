"""Choosing a structure and a protocol for a group table, saying why, and drawing the structure."""
