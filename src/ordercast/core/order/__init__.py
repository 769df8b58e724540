"""Ordering protocols, one file each, behind `interface.Ordering`; `registry` knows them by name."""
