"""The stores of a cluster as one history. Reads files only: the sites may run or not.

The room knows the store, and nothing that runs. Entered by `cli` and `pipeline`.
"""
