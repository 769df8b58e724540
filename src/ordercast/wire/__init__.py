"""Frames between sites and their bytes: version, limits, checksum."""
