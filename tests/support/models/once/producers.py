"""The same world with the marks that members keep of named producers, in place of the table: the
class that the product runs. A producer restarts with what it knows, and its numbers name bodies."""

from dataclasses import dataclass, field, replace

from ordercast.core.producers import ProducerMarks
from ordercast.model.messages import Batch, Requests, producer_id
from support.models.once.mutants import (
    DropsAtOrdering,
    HandsCurrentTable,
    HandsNothing,
    HoldsRelay,
    KeepsTableWhenCut,
    LosesTableOnRestart,
    RepeatsUnaccepted,
    RepeatsUnordered,
)
from support.models.once.rule import DELIVER, DUPLICATE, Request, Table
from support.models.once.world import Client, World


@dataclass
class MarkTable(Table):
    marks: ProducerMarks = field(default_factory=ProducerMarks)

    def copy(self) -> "MarkTable":
        return replace(self, marks=ProducerMarks(self.marks.all()))

    def log(self, request: Request) -> str:
        self.count += 1
        client = producer_id(1 + int(request.client[1:]))
        requests = Requests(client, ((request.number, 1),))
        batch = Batch("a", 1, "g", 1, 1, b"", requests=requests)
        return DELIVER if self.marks.keeps(batch) else DUPLICATE


class ProducerWorld(World):
    def new_table(self, site: str) -> Table:  # noqa: ARG002
        return MarkTable(self.most)

    def lose_memory(self, client: Client) -> None:
        """It has what is not known to be stable, and its numbers."""
        self.counts["producers that restart"] += 1
        client.at = None


def _with_marks(mutant: type[World]) -> type[World]:
    if "new_table" in vars(mutant):
        return mutant
    return type(mutant.__name__, (mutant, ProducerWorld), {})


PRODUCER_MUTANTS: tuple[type[World], ...] = tuple(
    _with_marks(one)
    for one in (
        HoldsRelay, RepeatsUnaccepted, RepeatsUnordered, KeepsTableWhenCut, LosesTableOnRestart,
        HandsNothing, HandsCurrentTable, DropsAtOrdering,
    )
)  # fmt: skip
