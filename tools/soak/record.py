"""What a soak has done, kept in `.soak/NAME.jsonl` so that a run can be taken up again.

The first line names the code the cases ran against; each further line is a finished chunk of
consecutive seeds. Lines are only ever appended, so whatever stops a soak costs at most the chunks
under way; a line torn by it is ignored.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    message: str
    replay: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """The cases first, first + 1, … of `count` seeds, all of them finished."""

    first: int
    count: int
    seconds: float
    counters: Mapping[str, int] = field(default_factory=dict)
    failures: Sequence[Failure] = ()

    @property
    def end(self) -> int:
        return self.first + self.count


class Record:
    """Chunks done so far, in memory and on disk."""

    def __init__(self, path: Path, fingerprint: str, chunks: Sequence[Chunk] = ()) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.chunks = list(chunks)

    @classmethod
    def begin(cls, path: Path, fingerprint: str) -> "Record":
        """An empty record; what was there before is kept beside it under `.previous`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_suffix(".previous"))
        path.write_text(json.dumps({"code": fingerprint}) + "\n", encoding="utf-8")
        return cls(path, fingerprint)

    @classmethod
    def resume(cls, path: Path, fingerprint: str) -> "Record | None":
        """The record of this code, or None when there is none or it is of other code."""
        try:
            with path.open("rb+") as file:  # what was torn off half-way must not join the next line
                whole = file.read().rpartition(b"\n")[0]
                file.truncate(len(whole) + 1 if whole else 0)
        except OSError:
            return None
        lines = whole.decode("utf-8").splitlines()
        if not lines or json.loads(lines[0]) != {"code": fingerprint}:
            return None
        return cls(path, fingerprint, [_chunk(line) for line in lines[1:]])

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        line = {
            "first": chunk.first,
            "count": chunk.count,
            "seconds": round(chunk.seconds, 3),
            "counters": dict(chunk.counters),
            "failures": [[f.seed, f.message, f.replay] for f in chunk.failures],
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def within(self, first: int, end: int) -> list[Chunk]:
        return [chunk for chunk in self.chunks if first <= chunk.first and chunk.end <= end]

    def missing(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [first, end) that are not done, as (first, end), ascending."""
        for chunk in sorted(self.within(first, end), key=lambda chunk: chunk.first):
            if chunk.first > first:
                yield first, chunk.first
            first = max(first, chunk.end)
        if first < end:
            yield first, end


def totals(chunks: Sequence[Chunk]) -> Counter[str]:
    summed: Counter[str] = Counter()
    for chunk in chunks:
        summed.update(chunk.counters)
    return summed


def _chunk(line: str) -> Chunk:
    data = json.loads(line)
    failures = tuple(Failure(*failure) for failure in data["failures"])
    return Chunk(data["first"], data["count"], data["seconds"], data["counters"], failures)
