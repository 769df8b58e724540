"""The columns of the source: those of the table `deliveries`, and those of the message itself.

`kind` says whether a row is a delivery, a gap or a rollback. A gap stands for `positions` positions
from `position` on that are no longer kept; it has no message. A rollback takes back `positions`
positions above `position`, which were read before; later deliveries have its `attempt`.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, TypeAlias

from ordercast.history.order_key import order_key
from ordercast.history.schema import arrow
from ordercast.model.groups import Site
from ordercast.model.messages import DeliveredBatch
from ordercast.net.export.contents import contents_of, parts_of
from ordercast.pipeline.streams.offsets import PositionRange

DELIVERY, GAP, ROLLBACK = "delivery", "gap", "rollback"
BATCH_ROWS = 16_384  # of one Arrow batch
BATCH_BYTES = 16 * 2**20  # of payloads: a column of Arrow holds 2 GiB

_COLUMNS = (
    ("site", "string"), ("position", "bigint"), ("attempt", "bigint"), ("epoch", "bigint"),
    ("group_name", "string"), ("origin", "string"), ("incarnation", "bigint"), ("seq", "bigint"),
    ("delivered_ns", "bigint"), ("digest", "bigint"), ("order_key", "binary"),
    ("client", "string"), ("request", "bigint"), ("part", "bigint"), ("sent_ns", "bigint"),
    ("addressed", "string"), ("payload", "binary"), ("headers", "map<string, binary>"),
    ("sent_at", "timestamp"), ("kind", "string"), ("positions", "bigint"),
)  # fmt: skip
HEADERS = "headers"

Values: TypeAlias = dict[str, list[Any]]


def spark_schema(headers: bool) -> str:
    """As Spark spells it."""
    return ", ".join(f"{name} {kind}" for name, kind in _columns(headers))


def arrow_columns(headers: bool) -> Any:
    """The same as an Arrow schema, as Spark wants its batches."""
    pa = arrow()
    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string, binary>": pa.map_(pa.string(), pa.binary()),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in _columns(headers)])


def _columns(headers: bool) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in _COLUMNS if headers or name != HEADERS]


class RowsOfBatches:
    """Collects batches of deliveries. Gives them as Arrow batches of about `BATCH_ROWS` rows, or
    `BATCH_BYTES` if that is less."""

    def __init__(self, site: Site, headers: bool) -> None:
        self._site = site
        self._headers = headers
        self._schema = arrow_columns(headers)
        self._begin()

    def _begin(self) -> None:
        self.rows = self._bytes = 0
        self._values: Values = {name: [] for name, _ in _COLUMNS}

    def add(self, batch: DeliveredBatch, after: int, last: int) -> None:
        """The messages of a batch that are at positions above `after`, up to `last`."""
        if batch.last <= after or batch.position > last:
            return
        batch = batch.between(after + 1, last)
        part, count, position = batch.placed.batch, batch.count, batch.position
        contents, parts = contents_of(part), parts_of(part)
        sent_ns, payloads, items = contents.sent_ns, contents.payloads, contents.headers
        self._bytes += sum(map(len, payloads))
        self._extend(
            count,
            position=range(position, position + count),
            attempt=repeat(batch.attempt, count),
            epoch=repeat(batch.epoch, count),
            group_name=repeat(part.group, count),
            origin=repeat(part.origin, count),
            incarnation=repeat(part.incarnation, count),
            seq=range(part.seq, part.seq + count),
            digest=contents.digests(),
            order_key=repeat(order_key(batch.placed.key), count),
            client=repeat(parts.client, count),
            request=parts.request,
            part=parts.part,
            sent_ns=repeat(sent_ns, count),
            addressed=repeat(contents.addressed, count),
            payload=payloads,
            headers=None if items is None else [list(each) for each in items],
            sent_at=repeat(None if sent_ns is None else sent_ns // 1_000, count),
            kind=repeat(DELIVERY, count),
            positions=repeat(1, count),
        )

    def add_gap(self, first: int, last: int) -> None:
        self._extend(
            1, position=[first], attempt=[0], kind=[GAP], positions=[max(0, last + 1 - first)]
        )

    def add_rollbacks(self, span: PositionRange) -> None:
        """Add the rollbacks that the range tells."""
        at = span.read
        for told in span.told:
            self._extend(
                1, position=[told.position], attempt=[told.attempt], kind=[ROLLBACK],
                positions=[at - told.position],
            )  # fmt: skip
            at = told.position

    def _extend(self, count: int, **columns: Any) -> None:
        values = self._values
        values["site"].extend(repeat(self._site, count))
        for name, column in values.items():
            if name == "site":
                continue
            given = columns.get(name)
            if given is None:
                column.extend(repeat([] if name == HEADERS else None, count))
            else:
                column.extend(given)
        self.rows += count

    def take(self) -> Any:
        """What was collected, as one Arrow batch."""
        pa = arrow()
        arrays = [pa.array(self._values[field.name], type=field.type) for field in self._schema]
        self._begin()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    @property
    def is_full(self) -> bool:
        return self.rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def full(self) -> Iterator[Any]:
        if self.is_full:
            yield self.take()

    def rest(self) -> Iterator[Any]:
        if self.rows:
            yield self.take()
