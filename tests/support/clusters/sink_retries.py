"""Batches of the sink that are run again and again, and what the members must deliver of them.

Each run has other rows in another order, and its driver dies at some step of the commit.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ordercast.model.groups import Group, Site
from ordercast.model.headers import Headers
from ordercast.net.client.client import Client
from ordercast.net.client.outgoing import SendLimits
from ordercast.pipeline.streams import sending
from ordercast.pipeline.streams.sending import commit_batch
from ordercast.pipeline.streams.staging import (
    FixedBatch,
    StagedFile,
    StagedRow,
    Staging,
)
from support.clusters.served import Served

GROUPS = ("alpha", "beta")


class Died(Exception):
    """The driver is gone."""


class DyingStaging(Staging):
    """A folder whose user dies at a step."""

    step = ""

    def fix(self, wanted: FixedBatch) -> FixedBatch:
        self._die("before it is fixed")
        found = super().fix(wanted)
        self._die("when it is fixed")
        return found

    def finish(self, batch: int) -> None:
        self._die("before it is done")
        super().finish(batch)
        self._die("when it is done")

    def _die(self, step: str) -> None:
        if self.step == step:
            raise Died(step)


@dataclass
class DyingClient:
    """A client whose user dies after some chunks."""

    client: Client
    left: int

    async def produce(
        self,
        producer: str,
        number: int,
        group: Group,
        payloads: Sequence[bytes],
        headers: Headers = None,
    ) -> Any:
        if not self.left:
            raise Died("among the chunks")
        self.left -= 1
        return await self.client.produce(producer, number, group, payloads, headers)

    async def status(self) -> dict[str, Any]:
        return await self.client.status()

    @property
    def site(self) -> Site:
        return self.client.site

    @property
    def groups(self) -> dict[Group, Any]:
        return dict(self.client.groups)

    @property
    def send_limits(self) -> SendLimits:
        return self.client.send_limits


EARLY = ("before it is fixed", "when it is fixed", "among the chunks", "before it is done")
LATE = (*EARLY, "when it is done", "")


@dataclass
class Retries:
    """What was tried. `fixed`: the rows of each batch, as they were fixed."""

    tried: int = 0
    died: int = 0
    fixed: dict[int, list[StagedRow]] = field(default_factory=dict)


class SinkAttack:
    """`make` opens the folder: mutants are other classes."""

    def __init__(self, sites: Served, folder: Any, seed: int, make: Any = DyingStaging) -> None:
        self.sites = sites
        self.folder = folder
        self.make = make
        self.chance = random.Random(seed)
        self.found = Retries()

    async def batch(self, number: int, retries: int) -> None:
        """Run a batch until its driver has died often enough, and then through; some runs come
        when it is done, as if Spark had lost the commit. Each run has other rows."""
        for n in range(retries):
            await self._run(number, self.chance.choice(LATE if n >= retries - 3 else EARLY))
        await self._run(number, "")

    async def _run(self, number: int, step: str) -> None:
        chance, found = self.chance, self.found
        found.tried += 1
        staging = self.make(self.folder)
        before = staging.fixed(number)
        if before is not None and step in EARLY[:2]:
            step = chance.choice(EARLY[2:])
        staging.step = EARLY[3] if step == EARLY[2] else step  # there may be too few chunks
        names = self._stage(staging, number)
        sending.chunk_rows = chance.choice([1, 3, 1_000])  # fixed with the batch
        try:
            await commit_batch(staging, "sink", number, names, lambda: self._connect(step))
        except Died:
            found.died += 1
        fixed = staging.fixed(number)
        if before is None and fixed is not None and not staging.is_done(number):
            found.fixed[number] = list(staging.rows(fixed))
        elif before is None and fixed is not None:
            found.fixed[number] = [row for name in fixed.files for row in self._staged[name.name]]

    def _stage(self, staging: Staging, number: int) -> list[StagedFile]:
        """Some partitions, of which some are run twice: the commit is told one of the two."""
        chance = self.chance
        self._staged: dict[str, list[StagedRow]] = {}
        names = []
        for partition in range(chance.randint(0, 3)):
            attempts = []
            for _ in range(chance.choice([1, 1, 2])):
                rows = [
                    StagedRow(
                        chance.choice(GROUPS),
                        f"{number}/{chance.random()}".encode(),
                        chance.choice([(), (("k", b"v"),)]),
                    )
                    for _ in range(chance.randint(0, 6))
                ]
                file = staging.stage(number, partition, iter(rows))
                self._staged[file.name] = rows
                attempts.append(file)
            names.append(chance.choice(attempts))
        chance.shuffle(names)
        return names

    @asynccontextmanager
    async def _connect(self, step: str) -> AsyncIterator[Any]:
        left = self.chance.randint(0, 4) if step == "among the chunks" else 1_000_000
        async with self.sites.connect(self.chance.choice("ab"), patience_s=60.0) as client:
            yield DyingClient(client, left)

    def wanted(self, group: Group) -> list[tuple[bytes, dict[str, bytes]]]:
        """What every member of a group must deliver, in order."""
        return [
            (row.payload, dict(row.headers))
            for number in sorted(self.found.fixed)
            for row in self.found.fixed[number]
            if row.group == group
        ]
