"""From the names that the tables hold to the numbers of the audit."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ordercast.check.runs import split_runs
from ordercast.history.rows import EpochRow, Event, GroupRow, History, Sent, no_request
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.numbers import Numbers, Run, Stream, number
from ordercast.pipeline.audits.rows import DELIVERED, SENT
from ordercast.pipeline.audits.scatter import Glossary, Legend, SiteName, StreamName

_TABLE = {DELIVERED: "deliveries", SENT: "sent"}


class Contents:
    """What the big tables hold, by name: sites with their rows, streams with their seqs."""

    def __init__(self, glossaries: Iterable[Glossary]) -> None:
        self.site_rows: dict[SiteName, int] = {}
        self.seqs: dict[StreamName, tuple[int, int]] = {}
        self.asked = 0  # rows that name a client
        for glossary in glossaries:
            if glossary.null:
                table = _TABLE[glossary.kind]
                raise ConfigError(f"{table}: field {glossary.null!r}: null in some row")
            if glossary.no_request:
                raise no_request(_TABLE[glossary.kind], glossary.no_request)
            self.asked += glossary.asked
            for site, rows in zip(glossary.sites, glossary.rows, strict=True):
                counted = rows if glossary.kind == DELIVERED else 0
                self.site_rows[site] = self.site_rows.get(site, 0) + counted
            seqs = zip(glossary.first, glossary.last, strict=True)
            for stream, (first, last) in zip(glossary.streams, seqs, strict=True):
                known = self.seqs.get(stream, (first, last))
                self.seqs[stream] = (min(first, known[0]), max(last, known[1]))

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for run, _ in self.site_rows))

    def rows_by_run(self, runs: Sequence[Run]) -> list[int]:
        """Deliveries, in the order of the runs."""
        found = dict.fromkeys(runs, 0)
        for (run, _), rows in self.site_rows.items():
            found[run] += rows
        return list(found.values())


def split_small(
    groups: list[GroupRow], events: list[Event], epochs: list[EpochRow], big_runs: Sequence[Run]
) -> dict[Run, History]:
    """The small tables by run, as `check.runs` divides them; runs of the big ones have a place."""
    stand_in = [Sent("", 0, "", 0, 0, 0, 0, 0, None, run) for run in big_runs]
    whole = History(groups=groups, events=events, epochs=epochs, sent=stand_in)
    return {
        run: History(groups=own.groups, events=own.events, epochs=own.epochs)
        for run, own in split_runs(whole)
    }


def number_names(histories: Mapping[Run, History], contents: Contents) -> Numbers:
    runs = list(histories)
    place = {run: i for i, run in enumerate(runs)}
    sites = [(place[run], site) for run, site in contents.site_rows]
    groups = []
    for run, history in histories.items():
        sites += [(place[run], row.site) for row in history.groups]
        sites += [(place[run], event.site) for event in history.events]
        groups += [(place[run], row.group_name) for row in history.groups]
    streams = (
        Stream(place[run], group, origin, incarnation, first, last)
        for (run, group, origin, incarnation), (first, last) in contents.seqs.items()
    )
    return number(runs, sites, groups, streams)


def legend(numbers: Numbers, glossaries: Iterable[Glossary]) -> Legend:
    place = {run: i for i, run in enumerate(numbers.runs)}
    base = {
        stream[:4]: int(offset) - stream.first_seq
        for offset, stream in zip(numbers.arrays.offsets[:-1], numbers.streams, strict=True)
    }
    bases, sites, kinds = {}, {}, {}
    asked = False
    for glossary in glossaries:
        asked = asked or glossary.asked > 0
        if glossary.digest in kinds:
            continue
        kinds[glossary.digest] = glossary.kind
        bases[glossary.digest] = np.array(
            [
                base[place[run], group, origin, incarnation]
                for run, group, origin, incarnation in glossary.streams
            ],
            np.int64,
        )
        sites[glossary.digest] = np.array(
            [numbers.site_number[place[run], name] for run, name in glossary.sites], np.int64
        )
    return Legend(bases, sites, kinds, asked)
