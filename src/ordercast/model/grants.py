"""Grants: which subject may do what, with which groups.

A subject is who asks: the owner of a daemon's socket, a site, or a client with a certificate of its
own. A grant is a verb and a pattern of groups, `send:sales*`. The table is plain data: a cluster
file founds it, records of the voters' log change it, and layouts carry it.

Without a table the socket's owner and sites may do everything, clients nothing. With one, nothing
is allowed that no line grants.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ordercast.model.errors import ConfigError, NotGranted
from ordercast.model.groups import Group
from ordercast.model.names import is_name, nearest, require_name, shown

SOCKET, SITE, CLIENT = "socket", "site", "client"
KINDS: Final = (SOCKET, SITE, CLIENT)
TRUSTED: Final = (SOCKET, SITE)  # may do everything where there is no table

SEND, READ, OBSERVE, ADMIN = "send", "read", "observe", "admin"
ACTS: Final = (SEND, READ, OBSERVE, ADMIN)
EVERY: Final = "*"  # all groups: also those that have no name of their own
MOST_LINES: Final = 1_000
MOST_ACTS: Final = 4_000  # of all lines
MOST_PATTERN: Final = 64  # characters

GrantText: TypeAlias = tuple[str, tuple[str, ...]]
"""A line as records and layouts have it: `client:billing`, (`send:sales`, `read:*`)."""


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

    @property
    def subject(self) -> str:
        return f"{self.kind}:{self.names}" if self.names else self.kind

    def told(self) -> GrantText:
        return self.subject, tuple(f"{act}:{groups}" for act, groups in self.acts)


@dataclass(frozen=True, slots=True)
class Grants:
    """The table. Lines add up: what one of them allows is allowed."""

    lines: tuple[GrantLine, ...] | None = None  # None: there is no table

    def allows(self, subject: ClientSubject, act: str, group: Group) -> bool:
        """Whether the subject may do this with the group; `EVERY`: with all groups."""
        if self.lines is None:
            return subject.kind in TRUSTED
        return any(
            granted == act and (groups == EVERY or fits(groups, group))
            for granted, groups in self._acts(subject)
        )

    def allows_some(self, subject: ClientSubject, acts: Iterable[str] = ACTS) -> bool:
        """Whether the subject may do one of these with some group."""
        if self.lines is None:
            return subject.kind in TRUSTED
        wanted = tuple(acts)
        return any(act in wanted for act, _ in self._acts(subject))

    def _acts(self, subject: ClientSubject) -> Iterator[tuple[str, str]]:
        for line in self.lines or ():
            if line.kind == subject.kind and fits(line.names, subject.name):
                yield from line.acts

    def sends(self) -> dict[tuple[str, str], None]:
        """Which sites may send where: patterns of sites and of groups. A site speaks for itself,
        the owner of its socket and any client, and is believed about them."""
        if self.lines is None:
            return {(EVERY, EVERY): None}
        return {
            (line.names if line.kind == SITE else EVERY, groups): None
            for line in self.lines
            for act, groups in line.acts
            if act == SEND
        }

    def require(self, subject: ClientSubject, act: str, group: Group) -> None:
        """Raise NotGranted, which names the grant that is missing."""
        if not self.allows(subject, act, group):
            raise NotGranted(missing(subject, act, group))

    # --- changed --------------------------------------------------------------------------------

    def told(self) -> tuple[GrantText, ...] | None:
        return None if self.lines is None else tuple(line.told() for line in self.lines)

    def written(self) -> "Grants":
        """The table that says what is allowed where there is none."""
        return self if self.lines is not None else Grants(_OF_THE_TRUSTED)

    def given(self, more: GrantLine) -> "Grants":
        """With the acts of one more line. The first change writes down what was allowed before."""
        lines = {line.subject: line for line in self.written().lines or ()}
        before = lines.get(more.subject, GrantLine(more.kind, more.names, ()))
        acts = tuple(dict.fromkeys((*before.acts, *more.acts)))
        lines[more.subject] = GrantLine(more.kind, more.names, acts)
        return Grants(tuple(lines.values()))

    def withdrawn(self, less: GrantLine) -> "Grants":
        """Without these acts of the subject's line; without the line, if none are named. Raises
        ConfigError if they are not there."""
        lines = {line.subject: line for line in self.written().lines or ()}
        before = lines.pop(less.subject, None)
        if before is None:
            raise ConfigError(
                f"grants: there is no line {less.subject}{nearest(less.subject, lines)}"
            )
        for act in less.acts:
            if act not in before.acts:
                raise ConfigError(f"grants: the line {less.subject} has no {':'.join(act)}")
        left = tuple(act for act in before.acts if less.acts and act not in less.acts)
        if left:
            lines[less.subject] = GrantLine(less.kind, less.names, left)
        return Grants(tuple(lines.values()))

    def require_room(self) -> None:
        """Raise ConfigError if the table has become too large."""
        lines = self.lines or ()
        acts = sum(len(line.acts) for line in lines)
        if len(lines) > MOST_LINES or acts > MOST_ACTS:
            raise ConfigError(
                f"grants: {len(lines):,} lines with {acts:,} grants; the most is {MOST_LINES:,}"
                f" with {MOST_ACTS:,}"
            )

    def is_changeable(self) -> bool:
        """Whether some line lets somebody change the grants."""
        return any((ADMIN, EVERY) in line.acts for line in self.written().lines or ())


def missing(subject: ClientSubject, act: str, group: Group) -> str:
    """The line that says which grant is missing, and how it is given."""
    grant = f"{act}:{group}"
    return f"{subject} has no grant {grant} ('ordercast grant add CLUSTER {subject} {grant}')"


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
        raise ConfigError(f"{source}: grants: {len(given):,} lines; the most is {MOST_LINES:,}")
    lines = tuple(
        grant_line(key, value, f"{source}: grants.{shown(key)}") for key, value in given.items()
    )
    grants = Grants(lines)
    grants.require_room()
    return grants


def grants_told(lines: Iterable[GrantText] | None) -> Grants:
    """The table of a record or a layout. Raises ConfigError if it is none."""
    if lines is None:
        return Grants()
    return Grants(tuple(grant_line(subject, list(acts), "grants") for subject, acts in lines))


def grant_line(key: str, value: Any, where: str) -> GrantLine:
    """The line of a subject and its grants. Raises ConfigError if it is none."""
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


_OF_THE_TRUSTED: Final = tuple(
    GrantLine(kind, names, tuple((act, EVERY) for act in ACTS))
    for kind, names in ((SOCKET, ""), (SITE, EVERY))
)


def subject_named(text: str) -> ClientSubject:
    """The subject `client:billing`, without a pattern. Raises ConfigError if it is none."""
    line = grant_line(text, [], "subject")
    if EVERY in line.names:
        raise ConfigError(f"subject: {shown(text)} is a pattern; name one subject")
    return ClientSubject(line.kind, line.names)


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
