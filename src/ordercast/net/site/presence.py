"""Whether this site is present in its groups, as callers and operators are told it.

Under `exclude` a site accepts nothing while it is absent from its groups, before the voters know
its store, and after a restart until the next epoch opens. All of this ends when a majority of the
voters answers: so callers wait. They give up (`NotInMajority`) when no majority was heard of for
long.
"""

import json
import time
from collections.abc import Callable, Iterable

from ordercast.core.epochs.member import Member
from ordercast.history.rows import EXCLUDED, RETURNED
from ordercast.model.errors import NotInMajority
from ordercast.model.groups import Site

NOT_FOUNDED = "not founded yet"
_WAITS_FOR = "founding needs every voter once; start "
PATIENCE = 10  # times the timeout of a silent site
_LEAST = 3_000_000_000  # nanoseconds: processes that start together are not ready together


class Presence:
    """`fed_at` tells when a manager was last heard. A manager has a majority, or steps down.
    `unlinked` names the peers that this site has no link to now."""

    def __init__(
        self, core: Member, fed_at: Callable[[], int], unlinked: Callable[[], Iterable[Site]]
    ) -> None:
        self._core = core
        self._fed_at = fed_at
        self._unlinked = unlinked
        self._absent = self._left() is not None
        self._settled = 0
        self._hopeful_until = 0  # until this time no silence is too long
        self._patience = max(_LEAST, PATIENCE * core.options.timing.suspect)

    @property
    def excludes(self) -> bool:
        return self._core.flush.excludes

    def takes(self) -> bool:
        """Whether the site accepts messages now."""
        return self._core.admission.open()

    def why_not(self) -> str | None:
        """Why the site accepts nothing now."""
        if not self.excludes:
            return None
        missing = self._never_met()
        if missing:
            return f"{NOT_FOUNDED}: {_WAITS_FOR}{missing}"
        return self._lonely() if self.hopeless else self._closed()

    @property
    def hopeless(self) -> bool:
        """Whether callers wait no longer: no majority was heard of for too long."""
        if not self._core.flush.excludes or time.monotonic_ns() < self._hopeful_until:
            return False
        alone = self._alone()
        self._hopeful_until = time.monotonic_ns() + self._patience - alone
        return alone > self._patience

    @property
    def in_majority(self) -> bool:
        """Whether the site is in a majority of the voters, as far as is known here."""
        return self._alone() <= 2 * self._core.options.timing.suspect

    def state(self) -> str:
        """The state of the site in one word, for an operator."""
        core, flush = self._core, self._core.flush
        if core.name not in core.layout.roster:
            return "outside"
        if not self.in_majority:
            return "no majority"
        under_way = core.layout.flushing
        if core.name in core.layout.absent or not flush.takes_part():
            returns = under_way is not None and core.name in under_way.members
            return "returning" if returns else "excluded"
        if flush.stopped():
            return "returning"
        if under_way is not None and core.name in under_way.members:
            return "flushing"
        return "present"

    def news(self) -> tuple[str, int, str] | None:
        """The event for the site's history if the site has become absent, or present again."""
        core, left = self._core, self._left()
        absent = left is not None
        if absent is self._absent:
            return None
        self._absent = absent
        home = core.layout.home(core.name)
        epoch = left if left is not None else home.epoch if home is not None else 0
        return EXCLUDED if absent else RETURNED, core.logged, json.dumps({"epoch": epoch})

    def _left(self) -> int | None:
        """The epoch that was closed without the site. None: the site is not absent, and was not
        when it was retired."""
        return self._core.layout.absent.get(self._core.name, self._core.flush.left_behind)

    def settled(self) -> int:
        """Up to this position of the log nothing will be taken back."""
        core = self._core
        home = core.layout.home(core.name)
        if home is not None:
            self._settled = max(self._settled, core.engines[home.epoch].gate.settled)
        elif core.flush.tail is None:
            self._settled = core.position
        return self._settled

    def _closed(self) -> str | None:
        try:
            self._core.flush.require_open()
        except NotInMajority as error:
            return str(error)
        return None

    def _alone(self) -> int:
        if self._core.manager.leads:
            return 0
        return time.monotonic_ns() - max(self._fed_at(), self._core.manager.led_at)

    def _never_met(self) -> str:
        """The voters that the founding of the cluster waits for, as far as is known here."""
        core = self._core
        if core.layout.count:
            return ""
        missing = [site for site in self._unlinked() if site in core.layout.voters]
        return " and ".join(filter(None, (", ".join(missing[:-1]), *missing[-1:])))

    def _lonely(self) -> str:
        core = self._core
        return (
            f"site {core.name} has heard of no majority of the voters"
            f" ({', '.join(core.layout.voters)}) for {self._alone() / 1e9:.0f} s"
        )


def awaited(reason: str) -> list[Site]:
    """The voters that a site's founding waits for, read from the reason that the site tells."""
    named = reason.partition(_WAITS_FOR)[2].replace(" and ", ", ")
    return [Site(name) for name in named.split(", ") if name]
