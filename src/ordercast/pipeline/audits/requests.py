"""What clients asked for, as rows carry it: columns of numbers, and the clients' names beside them.

Clients are too many to be known everywhere, as sites are: a packed value brings the names of its
own, and gets numbers for them where it is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ordercast.history.tables import REQUEST
from ordercast.pipeline.audits.numbers import Columns, Ints

NOBODY = -1
ASKED = tuple(column.name for column in REQUEST)


@dataclass
class Clients:
    """Numbers for the clients of a share, as they come."""

    names: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def numbers(self, names: Iterable[str | None]) -> Ints:
        """One for each name; None is nobody."""
        return np.array([NOBODY if n is None else self._number(n) for n in names], np.int64)

    def _number(self, name: str) -> int:
        number = self._known.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


@dataclass(frozen=True)
class Read:
    """What a batch of a table says was asked for: no columns at all where nobody did."""

    columns: Columns = field(default_factory=dict)
    names: list[str | None] = field(default_factory=list)  # by the numbers in the column `client`
    rows: int = 0
    null: str = ""  # a column without a value in a row that names a client

    def renumber(self, own: Columns) -> list[str | None]:
        """Gives the clients of some rows numbers of their own; their names."""
        if not self.columns:
            return []
        used, own["client"] = np.unique(own["client"], return_inverse=True)
        return [self.names[number] for number in used.tolist()]


def read_requests(table: pa.Table) -> Read:
    if "client" not in table.column_names:
        return Read()
    clients = table.column("client").combine_chunks()
    rows = len(clients) - clients.null_count
    if not rows:
        return Read()
    encoded = clients.dictionary_encode(null_encoding="encode")
    columns: Columns = {"client": encoded.indices.to_numpy().astype(np.int64)}
    asked = clients.is_valid().to_numpy(zero_copy_only=False)
    null = ""
    for name in ASKED[1:]:
        values = pa.nulls(len(clients), pa.int64())
        if name in table.column_names:
            values = table.column(name).combine_chunks()
        if not null and not values.is_valid().to_numpy(zero_copy_only=False)[asked].all():
            null = name
        columns[name] = values.fill_null(0).to_numpy()
    return Read(columns, encoded.dictionary.to_pylist(), rows, null)


def unasked(rows: int) -> Columns:
    """The columns of rows that name no client."""
    return {name: np.full(rows, NOBODY, np.int64) for name in ASKED}
