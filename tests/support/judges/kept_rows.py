"""What two queries of Spark have made of the deliveries of sites, judged by the sites' logs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

Rows: TypeAlias = list[tuple[int, str, str]]
"""Position, group and text, of one site."""


def judge_sent(site: str, wanted: Sequence[str], got: Sequence[str]) -> list[str]:
    """What a site has delivered, and what it should have."""
    if got == wanted:
        return []
    twice = [text for text, count in Counter(got).items() if count > 1]
    lost = sorted(set(wanted) - set(got), key=int)
    what = f"twice {twice[:5]}" if twice else f"lost {lost[:5]}" if lost else "another order"
    return [f"site {site}: {len(got)} of {len(wanted)}: {what}"]


def kept_rows(folder: Path) -> dict[str, Rows]:
    """What a query has written as Parquet, by site, in the order of its batches. Files that are not
    in Spark's own list were written by a task that did not count."""
    found: dict[str, Rows] = {}
    for path in _listed(folder / "_spark_metadata"):
        for row in pq.read_table(path).to_pylist():
            group, payload = row["group_name"] or row["kind"], row["payload"] or b""
            found.setdefault(row["site"], []).append((row["position"], group, payload.decode()))
    return found


def _listed(folder: Path) -> list[Path]:
    """A list has the files of one batch, or with `.compact` of all up to that."""
    lists = sorted(
        (path for path in folder.iterdir() if path.name.split(".")[0].isdecimal()),
        key=lambda path: int(path.name.split(".")[0]),
    )
    whole = [at for at, path in enumerate(lists) if path.suffix == ".compact"]
    lines = [
        json.loads(line)
        for path in lists[whole[-1] if whole else 0 :]
        for line in path.read_text(encoding="utf-8").splitlines()[1:]  # the first is the version
    ]
    return [Path(unquote(urlparse(line["path"]).path)) for line in lines]


def judge_kept(logs: Mapping[str, Rows], kept: Mapping[str, Rows]) -> list[str]:
    """What is wrong with the rows that were kept of each site."""
    wrong = [f"site {site} is not one that was read" for site in sorted(kept.keys() - logs.keys())]
    for site, wanted in sorted(logs.items()):
        got = kept.get(site, [])
        if got == wanted:
            continue
        more, less = Counter(got) - Counter(wanted), Counter(wanted) - Counter(got)
        what = "another order"
        if more or less:
            what = f"too many {sorted(more)[:3]}, lost {sorted(less)[:3]}"
        wrong.append(f"site {site}: {len(got):,} of {len(wanted):,} rows: {what}")
    return wrong
