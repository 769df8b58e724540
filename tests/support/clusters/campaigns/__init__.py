"""Whole cases of soak campaigns: clusters under load, whose parts are killed or moved at random."""
