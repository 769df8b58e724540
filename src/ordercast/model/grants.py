"""Grants: which subject may do what, with which groups.

A subject is who a client's session speaks for: the owner of the daemon's socket, a site, or a
client with a certificate of its own. A grant is a verb and a pattern of groups, `send:sales*`. The
table is plain data, so that a cluster file or a layout can carry it.

A kind of subject that no line of the table names keeps what it has without a table: the socket's
owner and sites may do everything, clients nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ordercast.model.errors import ConfigError, NotGranted
from ordercast.model.groups import Group
from ordercast.model.names import is_name, nearest, require_name, shown

SOCKET, SITE, CLIENT = "socket", "site", "client"
KINDS: Final = (SOCKET, SITE, CLIENT)
TRUSTED: Final = (SOCKET, SITE)  # may do everything unless a line names their kind

SEND, READ, OBSERVE, ADMIN = "send", "read", "observe", "admin"
ACTS: Final = (SEND, READ, OBSERVE, ADMIN)
EVERY: Final = "*"  # all groups: also those that have no name of their own
MOST_LINES: Final = 1_000
MOST_PATTERN: Final = 64  # characters


@dataclass(frozen=True, slots=True)
class ClientSubject:
    """Who speaks. The owner of the socket has no name."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


OWNER: Final = ClientSubject(SOCKET)


@dataclass(frozen=True, slots=True)
class GrantLine:
    """What the subjects of one kind whose names fit a pattern may do: (act, pattern of groups)."""

    kind: str
    names: str
    acts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Grants:
    """The table. Lines add up: what one of them allows is allowed."""

    lines: tuple[GrantLine, ...] = ()

    def allows(self, subject: ClientSubject, act: str, group: Group) -> bool:
        """Whether the subject may do this with the group; `EVERY`: with all groups."""
        named = False
        for line in self.lines:
            if line.kind != subject.kind:
                continue
            named = True
            if fits(line.names, subject.name):
                for granted, groups in line.acts:
                    if granted == act and (groups == EVERY or fits(groups, group)):
                        return True
        return not named and subject.kind in TRUSTED

    def allows_some(self, subject: ClientSubject, acts: Iterable[str] = ACTS) -> bool:
        """Whether the subject may do one of these with some group."""
        named = False
        wanted = tuple(acts)
        for line in self.lines:
            if line.kind == subject.kind:
                named = True
                if fits(line.names, subject.name) and any(act in wanted for act, _ in line.acts):
                    return True
        return not named and subject.kind in TRUSTED

    def require(self, subject: ClientSubject, act: str, group: Group) -> None:
        """Raise NotGranted, which names the grant that is missing."""
        if not self.allows(subject, act, group):
            raise NotGranted(
                f"{subject} has no grant {act}:{group} (in the cluster file, under [grants]:"
                f' "{subject}" = ["{act}:{group}"])'
            )


def fits(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which `*` stands for any characters, or none."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, max(at, end))
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def read_grants(given: Mapping[str, Any], source: str) -> Grants:
    """The table of a file: `"client:billing" = ["send:*", "read:sales"]`."""
    if len(given) > MOST_LINES:
        raise ConfigError(f"{source}: grants: {len(given)} lines; the most is {MOST_LINES}")
    return Grants(tuple(_line(key, value, source) for key, value in given.items()))


def _line(key: str, value: Any, source: str) -> GrantLine:
    where = f"{source}: grants.{shown(key)}"
    kind, colon, names = key.partition(":")
    if kind not in KINDS:
        raise ConfigError(f"{where}: there is no kind {shown(kind)}{nearest(kind, KINDS)}")
    if kind == SOCKET and colon:
        raise ConfigError(f"{where}: {SOCKET!r} has no name: it is the user who runs the daemon")
    if kind != SOCKET and not _is_pattern(names):
        raise ConfigError(f"{where}: write {kind}:NAME, in which * stands for any characters")
    if not isinstance(value, list):
        raise ConfigError(f'{where}: must be a list such as ["send:*"], not {shown(value)}')
    return GrantLine(kind, names, tuple(_act(each, where) for each in value))


def _act(value: Any, where: str) -> tuple[str, str]:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {shown(value)} is no grant; write VERB:GROUP, e.g. 'send:*'")
    act, colon, groups = value.partition(":")
    if act not in ACTS:
        raise ConfigError(f"{where}: {shown(value)}: there is no verb {act!r}{nearest(act, ACTS)}")
    if colon and not _is_pattern(groups):
        raise ConfigError(
            f"{where}: {shown(value)}: write {act}:GROUP, in which * stands for any characters"
        )
    return act, groups if colon else EVERY


def _is_pattern(text: str) -> bool:
    return 0 < len(text) <= MOST_PATTERN and is_name(f"x{text.replace('*', '')}"[:MOST_PATTERN])


def subject_of(uris: Iterable[str], cluster: str) -> ClientSubject | None:
    """Who a certificate names: the one site or client of this cluster among its URIs. None where
    there is none, or more than one."""
    found: list[ClientSubject] = []
    for uri in uris:
        head = f"ordercast://{cluster}/"
        if not uri.startswith(head):
            continue
        words = uri.removeprefix(head).split("/")
        if len(words) == 1 and is_name(words[0]):
            found.append(ClientSubject(SITE, words[0]))
        elif len(words) == 2 and words[0] == CLIENT and is_name(words[1]):
            found.append(ClientSubject(CLIENT, words[1]))
        else:
            return None
    return found[0] if len(found) == 1 else None


def client_uri(cluster: str, client: str) -> str:
    """How a client's name stands in its certificate. No site has a slash in its name, so nobody
    takes a client's certificate for a site's."""
    require_name(client, "client")
    return f"ordercast://{cluster}/{CLIENT}/{client}"
