"""The rule by which a request of a client becomes a delivery once, whatever copies of it are in the
log. A table per group is a function of the group's log, and is consulted when a copy is logged.

A request carries `prev`, the client's number before it to the same group, and `stamp`, a stable
count of the group's log when it was first sent. A repeat keeps both.
"""

from dataclasses import dataclass, field, replace

Name = tuple[str, int, str, int]
"""Client, generation, group, number."""

DELIVER, DUPLICATE, GAP, EXPIRED, FENCED = "deliver", "duplicate", "gap", "expired", "fenced"


@dataclass(frozen=True)
class Request:
    client: str
    generation: int
    number: int
    prev: int
    stamp: int
    group: str
    body: int
    floor: int = 0  # the client has its answers up to here; the rule does not look at it

    @property
    def name(self) -> "Name":
        return self.client, self.generation, self.group, self.number


@dataclass(frozen=True)
class Entry:
    """What a group knows of a client."""

    generation: int
    mark: int  # the last number that was delivered or refused
    touched: int  # the index of the client's last copy in the log
    horizon: int  # the group's, when the entry was made
    blind: bool = True  # it has delivered nothing yet: what came before it is not known


@dataclass
class Table:
    """State of one group, folded from its log. `most`: so many clients are kept."""

    most: int
    count: int = 0  # copies in the log so far
    horizon: int = 0  # a client without an entry sent nothing that is stamped below this
    entries: dict[str, Entry] = field(default_factory=dict)

    def copy(self) -> "Table":
        return replace(self, entries=dict(self.entries))

    def log(self, request: Request) -> str:
        """The next copy of the log: what becomes of it. The table is one copy further then."""
        self.count += 1
        index = self.count
        entry = self.entries.get(request.client)
        if entry is not None and request.generation < entry.generation:
            self.entries[request.client] = replace(entry, touched=index)
            return FENCED
        if entry is None or request.generation > entry.generation:
            entry = Entry(request.generation, 0, index, self.horizon)
        outcome, entry = self.judge(request, replace(entry, touched=index))
        self.entries[request.client] = entry
        if len(self.entries) > self.most:
            self.evict()
        return outcome

    def judge(self, request: Request, entry: Entry) -> tuple[str, Entry]:
        number = request.number
        if request.stamp < entry.horizon:  # the entry does not know what became of it before
            return EXPIRED, self.refused(entry, number)
        if number <= entry.mark:
            return DUPLICATE, entry
        if request.prev > entry.mark and not entry.blind:
            return GAP, entry
        return DELIVER, replace(entry, mark=number, blind=False)

    def refused(self, entry: Entry, number: int) -> Entry:
        """The numbers after one that is refused do not wait for it."""
        return replace(entry, mark=max(entry.mark, number))

    def evict(self) -> None:
        """Forget the client that was silent for longest. Copies of what it sent are stamped below
        the new horizon."""
        oldest = min(self.entries, key=lambda client: self.entries[client].touched)
        self.horizon = self.entries.pop(oldest).touched + 1
