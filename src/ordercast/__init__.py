"""Ordered, reliable multicast to overlapping groups.

Only the public names live here; DESIGN's rooms are the sub-packages.
"""

from ordercast.model.errors import ConfigError, Error, UnknownGroup
from ordercast.model.groups import GroupTable

__version__ = "0.1.0"

__all__ = ["ConfigError", "Error", "GroupTable", "UnknownGroup", "__version__"]
