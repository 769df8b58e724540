"""Frozen data shared by every room: names, groups, messages, epochs, options, errors."""
