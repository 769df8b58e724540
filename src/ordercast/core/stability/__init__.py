"""Stability trackers, one file each, behind one interface, and known by name."""
