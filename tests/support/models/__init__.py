"""Every interleaving of small clusters: the search, how states are compared, the cases."""
