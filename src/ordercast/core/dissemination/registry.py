"""The ways to many, by name."""

from typing import Final

UNICAST: Final = "unicast"
MULTICAST: Final = "multicast"

WAYS: Final = (UNICAST, MULTICAST)
