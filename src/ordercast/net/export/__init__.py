"""The stores of a cluster as one history. Reads files only: the sites may run or not.

Only the command enters. The room knows the store, and nothing that runs.
"""
