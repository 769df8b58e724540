"""One round of a stability protocol, in virtual time, on the network of a tree ([STAB] §5.1)."""
