"""The small clusters whose every interleaving is looked at: three sites (or four), two groups, one
change, up to three messages. The manager's site is the only voter where nothing else is said."""

from collections.abc import Callable
from functools import partial

from ordercast.model.epochs import AddGroup, Edit, JoinGroup, LeaveGroup, UseProtocol
from support.model import Call, Model, edit_call

THREE = {"g": ["a", "b"], "h": ["b", "c"]}
FOUR = {"g": ["a", "b"], "h": ["c", "d"]}
MESSAGES: list[Call] = [
    ("a", "send", ("g", b"1")),
    ("c", "send", ("h", b"2")),
    ("b", "send", ("g", b"3")),
]
CHANGES: dict[str, Edit] = {
    "join": JoinGroup("g", "c"),
    "leave": LeaveGroup("h", "b"),
    "new group": AddGroup("n", ("a", "c")),
    "switch": UseProtocol("centralized"),
}


def three(change: str, messages: int, voters: str = "a", **options: object) -> Model:
    calls = [edit_call("b", CHANGES[change]), *MESSAGES[:messages]]
    return Model(THREE, ["a", "b", "c"], list(voters), calls, **options)  # type: ignore[arg-type]


def merge(messages: int, **options: object) -> Model:
    """Two domains of two sites each become one."""
    calls = [edit_call("b", JoinGroup("g", "c")), *MESSAGES[:messages]]
    return Model(FOUR, ["a", "b", "c", "d"], ["a"], calls, **options)  # type: ignore[arg-type]


CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{change}, {count} message{'s' * (count > 1)}": partial(three, change, count, fifo=True)
        for change in CHANGES
        for count in (1, 2, 3)
    },
    "join, any order": partial(three, "join", 0),
    "join, 1 message, any order": partial(three, "join", 1),
    "join, 1 fault, any order": partial(three, "join", 0, faults=1),
    "leave, 1 fault, any order": partial(three, "leave", 0, faults=1),
    "join, 1 fault": partial(three, "join", 0, fifo=True, faults=1),
    "leave, 1 fault": partial(three, "leave", 0, fifo=True, faults=1),
    "join, 1 crash": partial(three, "join", 0, fifo=True, faults=1, kinds=("crash",)),
    "join, 1 message, 1 crash": partial(three, "join", 1, fifo=True, faults=1, kinds=("crash",)),
    "leave, 1 message, 1 crash": partial(three, "leave", 1, fifo=True, faults=1, kinds=("crash",)),
    "join, 1 message, 1 loss": partial(three, "join", 1, fifo=True, faults=1, kinds=("loss",)),
    "join, 3 voters": partial(three, "join", 0, "abc", fifo=True),
    "join, 3 voters, 1 message": partial(three, "join", 1, "abc", fifo=True),
    "join, 3 voters, 1 crash": partial(
        three, "join", 0, "abc", fifo=True, faults=1, kinds=("crash",)
    ),
    **{
        f"{protocol}: {change}, {what}": partial(
            three, change, messages, "a", fifo=True, protocol=protocol, **faults
        )
        for protocol in ("two_phase", "symmetric", "tom")
        for change, what, messages, faults in (
            ("switch", "1 message", 1, {}),
            ("leave", "1 loss", 0, {"faults": 1, "kinds": ("loss",)}),
            ("leave", "1 crash", 0, {"faults": 1, "kinds": ("crash",)}),
            ("leave", "1 message, 1 crash", 1, {"faults": 1, "kinds": ("crash",)}),
        )
    },
    "merge of two domains": partial(merge, 0, fifo=True),
    "merge of two domains, 1 message": partial(merge, 1, fifo=True),
}

# What `make test` goes through, and how many states there are.
SHORT = {
    "join, 1 message": 10_884,
    "leave, 1 message": 1_508,
    "new group, 1 message": 1_508,
    "switch, 1 message": 1_734,
    "join, any order": 1_315,
    "join, 3 voters": 915,
    "merge of two domains": 2_334,
    "join, 1 fault": 39_741,
    "leave, 1 fault": 39_741,
    "two_phase: switch, 1 message": 5_498,
    "two_phase: leave, 1 loss": 6_021,
    "symmetric: leave, 1 loss": 11_759,
    "tom: switch, 1 message": 2_592,
    "tom: leave, 1 loss": 4_160,
}
