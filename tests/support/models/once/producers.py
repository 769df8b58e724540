"""The same world with the marks that members keep of named producers, in place of the table: the
class that the product runs. A producer restarts with what it knows, and its numbers name bodies; or
without memory, in the next generation, while the program of before may still be there."""

from dataclasses import dataclass, field, replace

from ordercast.core.producers import ProducerMarks
from ordercast.model.messages import Batch, Requests, in_generation, producer_id
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
from support.models.once.rule import DELIVER, DUPLICATE, FENCED, Request, Table
from support.models.once.world import Client, World


@dataclass
class MarkTable(Table):
    marks: ProducerMarks = field(default_factory=ProducerMarks)

    def copy(self) -> "MarkTable":
        return replace(self, marks=ProducerMarks(self.marks.all()))

    def log(self, request: Request) -> str:
        self.count += 1
        batch = self.batch(request)
        if self.marks.keeps(batch):
            return DELIVER
        return DUPLICATE if self.marks.knows(batch) else FENCED

    def batch(self, request: Request) -> Batch:
        number = in_generation(request.generation, request.number)
        requests = Requests(producer_id(1 + int(request.client[1:])), ((number, 1),))
        return Batch("a", 1, "g", 1, 1, b"", requests=requests)


class ProducerWorld(World):
    table = MarkTable

    def lose_memory(self, client: Client) -> None:
        """It has what is not known to be stable, and its numbers."""
        self.counts["producers that restart"] += 1
        client.at = None


class GenerationWorld(ProducerWorld):
    """Now and then a producer begins anew without memory, and counts from 1 again. The program of
    before goes on as long as it likes: nobody can tell it."""

    def step(self) -> None:
        if self.chance.random() < 0.03 and len(self.clients) < 6:
            self.begin_anew(self.chance.choice(self.clients))
        super().step()

    def begin_anew(self, client: Client) -> None:
        self.counts["generations"] += 1
        fresh = Client(client.name)
        same = [one.generation for one in self.clients if one.name == client.name]
        fresh.generation = max(same) + 1
        self.clients.append(fresh)

    def run(self, steps: int = 120) -> World:
        super().run(steps)
        for daemon in (self.daemons[name] for name in self.members):
            last: dict[tuple[str, str], int] = {}
            for index in range(daemon.begins, daemon.seen):
                request = daemon.log[index].request
                stream = request.client, request.group
                if daemon.done[index] == DELIVER and request.generation < last.get(stream, 0):
                    self.wrong.append(f"{request.name} is delivered behind a later generation")
                elif daemon.done[index] == DELIVER:
                    last[stream] = request.generation
        return self


class _FencedAreCopies(MarkTable):
    def log(self, request: Request) -> str:
        return DELIVER if super().log(request) == DELIVER else DUPLICATE


class _NumbersAlone(MarkTable):
    def batch(self, request: Request) -> Batch:
        return super().batch(replace(request, generation=1))


class _MarksApart(MarkTable):
    def batch(self, request: Request) -> Batch:
        client = f"k{10 * int(request.client[1:]) + request.generation}"
        return super().batch(replace(request, client=client))


class FencedAreCopies(GenerationWorld):
    """Nothing of an earlier generation is delivered, but it is told stable."""

    table = _FencedAreCopies


class NumbersAlone(GenerationWorld):
    """A new program uses the numbers again, in no generation: what it sends is taken for copies."""

    table = _NumbersAlone


class MarksApart(GenerationWorld):
    """Each generation has a mark of its own: the old program goes on between the new messages."""

    table = _MarksApart


GENERATION_MUTANTS: tuple[type[GenerationWorld], ...] = (FencedAreCopies, NumbersAlone, MarksApart)


def _with_marks(mutant: type[World]) -> type[World]:
    if "table" in vars(mutant) or "new_table" in vars(mutant):
        return mutant
    return type(mutant.__name__, (mutant, ProducerWorld), {})


PRODUCER_MUTANTS: tuple[type[World], ...] = tuple(
    _with_marks(one)
    for one in (
        HoldsRelay, RepeatsUnaccepted, RepeatsUnordered, KeepsTableWhenCut, LosesTableOnRestart,
        HandsNothing, HandsCurrentTable, DropsAtOrdering,
    )
)  # fmt: skip
