"""The groups of a file that a user names: of a groups file, or of a cluster file."""

import re
from pathlib import Path

from ordercast.cli.command import read_text
from ordercast.model.groups import GroupTable, parse_groups

CLUSTER_TABLE = re.compile(r"^\s*\[\s*cluster\s*\]", re.MULTILINE)


def group_table(name: str) -> GroupTable:
    """The table of the file, or of standard input for `-`."""
    text = read_text(name)
    if CLUSTER_TABLE.search(text) is None:
        return parse_groups(text, source=name)
    from ordercast.net.cluster.file import parse_cluster  # planning alone needs no network

    cluster = parse_cluster(text, source=name, base=Path(name).parent)
    return GroupTable.of(cluster.groups, sites=list(cluster.sites))
