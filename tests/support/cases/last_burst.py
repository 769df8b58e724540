"""A site of its own that sends a message in the burst that ends the epoch. Schedules hardly ever
come to that since an engine is drained in the bursts of its own frames only."""

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import Folded
from ordercast.core.outbox import Accepted
from ordercast.model.epochs import AddGroup, Finish
from ordercast.model.options import MILLISECOND, NEVER, Options
from ordercast.sim.members import build_forest


def written_around_the_end() -> list[str]:
    """In the order in which they are written: "message" and "end", of the burst with the end."""
    layout = first_layout(["a"], ["a"], {"g": ("a",)}, "greedy", "propagation", build_forest)
    member = Member("a", layout, Options(on_failure="wait"), build_forest)
    member.start(0)
    box, now, asked = member.drain(), 0, False
    while now < 10_000 * MILLISECOND:
        alarm = min(box.epochs_alarm, box.voters_alarm)
        now = max(now + 1, alarm if alarm < NEVER else now + MILLISECOND)
        member.alarm(now)
        if member.manager.leads:
            if not asked:
                member.ask(now, "change", (AddGroup("h", ("a",)),))
                asked = True
            member.submit(now, "g", [b"x"])
        box = member.drain()
        found = [
            "message" if isinstance(record, Accepted) else "end"
            for record in box.persist
            if isinstance(record, Accepted)
            or (isinstance(record, Folded) and isinstance(record.record, Finish))
        ]
        if "end" in found:
            return found
    return []
