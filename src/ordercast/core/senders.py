"""Which sites may send to which groups of an epoch: asked of every batch that a site takes.

A batch whose origin may not send waits: perhaps this site has not heard of the grant yet. The
argument is in docs/epochs.md, "Who may send, in an epoch".
"""

from collections.abc import Iterable, Sequence

from ordercast.core.order.interface import CLOSING
from ordercast.model.errors import NotGranted
from ordercast.model.grants import EVERY, SEND, SITE, ClientSubject, fits, missing
from ordercast.model.groups import Group, Site
from ordercast.wire.frames import Item

_MOST_KNOWN = 10_000  # answers that are remembered


class Senders:
    """State: patterns of sites and groups, and answers that were given before."""

    __slots__ = ("_known", "_sends", "waiting")

    def __init__(self, sends: Iterable[tuple[str, str]]) -> None:
        self._sends = tuple(sends)
        self._known: dict[tuple[Site, Group], bool] = {}
        self.waiting: dict[tuple[Site, Group], None] = {}  # batches of these wait for a grant

    def may_send(self, origin: Site, group: Group, members: Sequence[Site]) -> bool:
        """Whether the origin may send to the group, or to listed sites."""
        asked = origin, EVERY if members else group
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[asked] = any(
                fits(sites, origin) and (groups == EVERY or fits(groups, asked[1]))
                for sites, groups in self._sends
            )
        return known

    def require(self, origin: Site, group: Group, members: Sequence[Site]) -> None:
        """Raise NotGranted, which names the missing grant."""
        if not self.may_send(origin, group, members):
            raise NotGranted(
                missing(ClientSubject(SITE, origin), SEND, EVERY if members else group)
            )

    def allow(self, item: Item) -> bool:
        """Whether the origin of the batch may send to its group; anybody passes it on. If it may
        not, the batch waits."""
        batch = item.carried()
        if batch is None or batch.incarnation == CLOSING:
            return True
        if self.may_send(batch.origin, batch.group, batch.members):
            return True
        if len(self.waiting) < _MOST_KNOWN:
            self.waiting[batch.origin, EVERY if batch.members else batch.group] = None
        return False


def senders_by(sends: Iterable[tuple[str, str]]) -> Senders | None:
    """None: every site may send to every group."""
    patterns = dict.fromkeys(sends)
    return None if (EVERY, EVERY) in patterns else Senders(patterns)
