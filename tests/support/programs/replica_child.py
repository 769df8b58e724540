"""A process that kills itself at one step of a snapshot: `replica_child.py DIR STEP`.

Two sites in one process, on real stores. Site a's replica takes snapshots. Site b's replica starts
from the first position, so its state is what a's must be. The process prints as JSON what it found,
does some commands, saves, and kills itself with SIGKILL at the named step, or ends after the last.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.replica import past as replica_past
from ordercast.net.site import snapshot_file
from ordercast.net.site.node import Node, site_of

STEPS = (
    "before taking", "before writing", "half written", "before syncing", "before renaming",
    "before syncing the directory", "before confirming", "confirmed",
)  # fmt: skip
ACKNOWLEDGED = "acknowledged"
COMMANDS = 7


def end(at: str) -> None:
    if at == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)


class Log:
    """A state that shows every call of `apply`."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        self.calls = 0

    def apply(self, command: bytes, delivery: ordercast.Delivery) -> int:
        self.calls += 1
        self.seen.append([delivery.position, command.decode()])
        return len(self.seen)

    def snapshot(self) -> bytes:
        end("before taking")
        return json.dumps(self.seen).encode()

    def restore(self, state: bytes) -> None:
        self.seen = json.loads(state)


def watch_the_steps(directory: Path) -> None:
    """End the process at the named step of the file; let all other steps go on."""

    def before(step: Callable[[], str], do: Callable[..., Any]) -> Callable[..., Any]:
        def doing(*arguments: Any) -> Any:
            end(step())
            return do(*arguments)

        return doing

    renamed = False

    def rename(beside: Path, path: Path) -> Path:
        nonlocal renamed
        if beside.parent != directory:
            return replace(beside, path)
        end("before renaming")
        renamed = True
        return replace(beside, path)

    def write(path: Path, snapshot: snapshot_file.Snapshot) -> None:
        nonlocal renamed
        renamed = False
        end("before writing")
        if sys.argv[2] == "half written":
            path.with_name(f"{path.name}.new").write_bytes(
                snapshot.state[: len(snapshot.state) // 2]
            )
        end("half written")
        written(path, snapshot)

    replace, written = Path.replace, snapshot_file.write_snapshot
    Path.replace = rename  # type: ignore[method-assign, assignment]
    setattr(replica_past, "write_snapshot", write)  # noqa: B010
    os.fsync = before(
        lambda: "before syncing the directory" if renamed else "before syncing", os.fsync
    )


async def main(directory: Path) -> None:
    groups = {"alpha": ["a", "b"]}
    a, b = Log(), Log()
    async with ordercast.local_cluster(groups, dir=directory, durability="os") as cluster:
        node = cluster["a"]
        confirmed = site_of(node).store.confirmed
        options: Any = {"snapshot": a.snapshot, "restore": a.restore, "path": directory / "a.state"}
        async with (
            ordercast.Replica(node, "alpha", a.apply, **options) as first,
            ordercast.Replica(cluster["b"], "alpha", b.apply) as second,
        ):
            restored = first.position
            await first.read(lambda: None)
            await second.read(lambda: None)
            said = {
                "a": a.seen, "b": b.seen, "restored": restored, "confirmed": confirmed,
                "calls": a.calls,
            }  # fmt: skip
            print(json.dumps(said), flush=True)
            watch_the_steps(directory)
            Node.confirm = confirming(Node.confirm)  # type: ignore[method-assign]
            for number in range(COMMANDS):
                command = f"{node.boot}/{number}"
                await first.submit(command.encode())
                with (directory / ACKNOWLEDGED).open("a") as file:
                    file.write(f"{command}\n")
            await first.save()
            end("confirmed")


def confirming(confirm: Any) -> Any:
    async def ended(node: Node, position: int) -> None:
        end("before confirming")
        await confirm(node, position)

    return ended


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
