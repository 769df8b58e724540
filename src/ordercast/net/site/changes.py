"""Changes of a running cluster, asked for at any of its sites.

A change closes the domains it touches and opens the next epochs (docs/epochs.md). `change` returns
when the asked site has seen it done; a change that is impossible raises ConfigError, and nothing
has happened then. Cancelled, or cut off, a change that was asked for may still be done.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Generic, TypeAlias, TypeVar, get_args

import msgspec

from ordercast.model.arguments import require_names
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Edit,
    Grant,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    RevokeCertificate,
    UseBuilder,
    UseProtocol,
    Withdraw,
)
from ordercast.model.errors import ConfigError, Error, FrameError, NotInMajority
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.names import shown
from ordercast.net.cluster.addresses import parse_address
from ordercast.net.site.presence import Presence
from ordercast.wire.complaint import complaint
from ordercast.wire.epochs import check_change


def new_change_name() -> str:
    """A name that no other change has. The cluster recognises by it a change that it has done."""
    return os.urandom(8).hex()


R = TypeVar("R", covariant=True)


class ClusterChanges(ABC, Generic[R]):
    """The calls for changes that a node, a daemon's client and their blocking faces share. A call
    returns what `change` returns (R): an awaitable, or nothing where it blocks. `site` is the site
    that is asked. A call that names no site means this one."""

    site: Site

    @abstractmethod
    def change(self, *edits: Edit, name: str = "") -> R:
        """Several edits are one change: done all at once, or not. Asked again under the same
        name, it is not done again."""

    def join(self, group: Group, site: Site | None = None) -> R:
        """Make a site, this one unless another is named, a member of the group. Raises as
        `change`."""
        return self.change(JoinGroup(group, site or self.site))

    def leave(self, group: Group, site: Site | None = None) -> R:
        """End a site's membership of the group. Raises as `change`."""
        return self.change(LeaveGroup(group, site or self.site))

    def add_group(self, group: Group, members: Iterable[Site]) -> R:
        """Add a group of these sites. Raises as `change`."""
        return self.change(AddGroup(group, require_names(members, "members")))

    def remove_group(self, group: Group) -> R:
        """Remove a group. Messages to it that are not ordered yet are refused: their receipts
        raise UnknownGroup. Raises as `change`."""
        return self.change(RemoveGroup(group))

    def add_site(self, site: Site, address: str) -> R:
        """Admit a site that the cluster file does not have, at HOST:PORT (empty: it dials, and is
        not dialled); it may then join groups. Raises as `change`."""
        return self.change(AddSite(site, address))

    def retire_site(self, site: Site) -> R:
        """The site leaves all its groups, and the cluster. Raises as `change`."""
        return self.change(RetireSite(site))

    def switch_protocol(self, protocol: str, site: Site = "") -> R:
        """Order by another protocol in the domain that has the site, or in all domains if none is
        named. Raises as `change`."""
        return self.change(UseProtocol(protocol, site))

    def use_builder(self, builder: str, site: Site = "") -> R:
        """Build the forest by another builder in the domain that has the site, or in all domains
        if none is named. Raises as `change`."""
        return self.change(UseBuilder(builder, site))

    def add_voter(self, site: Site) -> R:
        """Let a site decide changes with the other voters; done when it has all that was decided.
        Raises as `change`."""
        return self.change(AddVoter(site))

    def remove_voter(self, site: Site) -> R:
        """Remove a site from the voters. If it is being added, and never came, its adding is taken
        back: the call that asked for it raises ConfigError. Raises as `change`."""
        return self.change(RemoveVoter(site))

    def grant(self, subject: str, acts: Iterable[str]) -> R:
        """Let a subject (`client:billing`, `site:*`, `socket`) do more: acts such as `send:sales`.
        The first grant of a cluster makes a table, which begins with everything that was allowed
        without one. Raises as `change`."""
        return self.change(Grant(subject, require_names(acts, "acts")))

    def withdraw(self, subject: str, acts: Iterable[str] = ()) -> R:
        """Take grants back from the line of a subject; all of the line, if no acts are named.
        Raises as `change`."""
        return self.change(Withdraw(subject, require_names(acts, "acts")))

    def revoke_certificate(self, subject: str, fingerprint: str) -> R:
        """Refuse this certificate from now on, and end the connections that were made with it.
        `fingerprint`: its SHA-256, in hexadecimal digits. Raises as `change`."""
        return self.change(RevokeCertificate(subject, fingerprint))


class _Asked(msgspec.Struct, array_like=True):
    name: str
    edits: tuple[Edit, ...]


_read_asked = msgspec.msgpack.Decoder(_Asked).decode


def require_change(name: str, edits: Sequence[Edit]) -> None:
    """Raise ConfigError unless this change may be asked for. A caller may give anything."""
    for number, edit in enumerate(edits):
        if not isinstance(edit, get_args(Edit)):
            raise ConfigError(f"edits[{number}]: {shown(edit)} is no edit of a cluster")
    body = b""
    try:
        body = msgspec.msgpack.encode(_Asked(name, tuple(edits)))
        _read_asked(body)
        check_change(name, edits)
    except (TypeError, ValueError, OverflowError) as error:  # also what msgspec raises
        raise ConfigError(complaint(error, body, _Asked, "change")) from None
    except FrameError as error:
        raise ConfigError(str(error)) from None
    for edit in edits:
        if isinstance(edit, AddSite) and edit.address:
            parse_address(edit.address, f"address of site {edit.site!r}")


_ASKED = "the change was asked for, and may be done"


Ask: TypeAlias = Callable[[str, tuple[Edit, ...], ClientSubject | None], None]


class ChangeRequests:
    """The changes that were asked for at this site, and the callers that wait for their outcome."""

    def __init__(self, presence: Presence, ask: Ask) -> None:
        self._presence = presence
        self._ask = ask
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def change(
        self, edits: tuple[Edit, ...], name: str, subject: ClientSubject | None = None
    ) -> None:
        """The change is checked (`require_change`)."""
        if self._presence.hopeless:
            raise NotInMajority(self._presence.why_not() or "")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(done)
        self._ask(name, edits, subject)
        await done

    def decided(self, outcomes: Sequence[tuple[str, str]]) -> None:
        for name, why_not in outcomes:
            for done in self._waiting.pop(name, ()):
                if done.done():
                    continue  # its waiter was cancelled
                if why_not:
                    done.set_exception(ConfigError(why_not))
                else:
                    done.set_result(None)

    def look(self) -> None:
        """Fail the callers that wait when no majority has been heard for too long."""
        if self._waiting and self._presence.hopeless:
            self._fail(NotInMajority(f"{_ASKED}: {self._presence.why_not()}"))

    def close(self, why: str) -> None:
        self._fail(Error(f"{_ASKED}: {why}"))

    def _fail(self, error: Error) -> None:
        for done in chain(*self._waiting.values()):
            if not done.done():
                done.set_exception(type(error)(str(error)))
        self._waiting.clear()
