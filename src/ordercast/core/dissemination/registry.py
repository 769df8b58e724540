"""The ways to many, by name."""

from typing import Final

UNICAST: Final = "unicast"
TREE: Final = "tree"
MULTICAST: Final = "multicast"

WAYS: Final = (UNICAST, TREE, MULTICAST)
