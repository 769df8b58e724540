"""Whole clusters, in one process or in several: how to start, load, change, kill and judge them."""
