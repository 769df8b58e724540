"""The stores of a cluster as one history. Reads files only: the sites may run or not."""
