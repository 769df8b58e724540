"""Stability trackers, one file each, behind `interface.Stability`; `registry` knows them."""
