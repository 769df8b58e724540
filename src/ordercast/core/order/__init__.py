"""Ordering protocols, one file each, behind one interface, and known by name."""
