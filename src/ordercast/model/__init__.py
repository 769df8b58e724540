"""Frozen data shared by every room: names, group tables, errors."""
