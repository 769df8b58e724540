"""The small clusters whose every interleaving is looked at: three sites (or four), two groups, one
change, up to three messages. The manager's site is the only voter where nothing else is said."""

from collections.abc import Callable
from functools import partial

from ordercast.model.epochs import AddGroup, Edit, JoinGroup, LeaveGroup, UseProtocol
from ordercast.model.options import MILLISECOND
from support.models.interleavings import Call, Model, edit_call

THREE = {"g": ["a", "b"], "h": ["b", "c"]}
FOUR = {"g": ["a", "b"], "h": ["c", "d"]}
TWO = {"g": ["a", "b"]}
FROM_A: Call = ("a", "send", ("g", b"1"))
TO_G: Call = ("b", "send", ("g", b"3"))
TO_H: Call = ("c", "send", ("h", b"2"))
MESSAGES: list[Call] = [FROM_A, TO_H, TO_G]
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


def excluding(
    groups: dict[str, list[str]], calls: list[Call], voters: str = "a", **options: object
) -> Model:
    """A model under `exclude`: the others wait for a site that is away, or exclude it, and it
    returns. The manager notices after four beats that a site is silent; the site may be away twice
    as long. Of two sites an alarm that is due may also go off while frames are under way; of three
    the space would be too large."""
    sites = sorted({site for members in groups.values() for site in members})
    shared: dict[str, object] = {"policy": "exclude", "fifo": True, "patience": 400 * MILLISECOND}
    shared["prompt"] = len(sites) == 2
    return Model(groups, sites, list(voters), calls, **(shared | options))  # type: ignore[arg-type]


def cut(site: str) -> list[Call]:
    """At some time the site hears no others; at some later time it does."""
    return [(site, "cut", None), (site, "heal", None)]


def crash(site: str) -> Call:
    return (site, "crash", None)


def lose(site: str) -> Call:
    return (site, "lose", None)


def unlink(site: str, other: str) -> Call:
    return (site, "unlink", other)


def together(*failures: Call) -> list[Call]:
    """At one moment."""
    return [("", "together", failures)]


WAITING: dict[str, Callable[[], Model]] = {
    f"two sites wait, {what}, {deliver}": partial(
        excluding, TWO, calls, policy="wait", deliver=deliver, **options
    )
    for deliver in ("safe", "agreed")
    for what, calls, options in (
        ("a leaf crashes", [TO_G], {"faults": 1, "kinds": ("crash",), "hit": "b"}),
        ("the root crashes", [TO_G], {"faults": 1, "kinds": ("crash",), "hit": "a"}),
        ("two crashes", [TO_G], {"faults": 2, "kinds": ("crash",)}),
        ("a leaf is cut off", [*cut("b"), TO_G], {}),
        ("the root is cut off", [*cut("b"), FROM_A], {"voters": "b"}),
    )
}

EXCLUDING: dict[str, Callable[[], Model]] = {
    f"{what}, {deliver}": partial(excluding, groups, calls, deliver=deliver, **options)
    for deliver in ("safe", "agreed")
    for what, groups, calls, options in (
        ("two sites, a leaf crashes", TWO, [TO_G], {"faults": 1, "kinds": ("crash",), "hit": "b"}),
        (
            "two sites, the root crashes",
            TWO,
            [TO_G],
            {"faults": 1, "kinds": ("crash",), "hit": "a"},
        ),
        ("two sites, two crashes", TWO, [TO_G], {"faults": 2, "kinds": ("crash",)}),
        ("two sites, a store is lost", TWO, [TO_G], {"faults": 1, "kinds": ("lose",), "hit": "b"}),
        ("two sites, a leaf is cut off", TWO, [*cut("b"), TO_G], {}),
        ("two sites, the root is cut off", TWO, [*cut("b"), FROM_A], {"voters": "b"}),
        ("a leaf crashes", THREE, [TO_H], {"faults": 1, "kinds": ("crash",), "hit": "c"}),
        ("the manager crashes", THREE, [TO_H], {"faults": 1, "kinds": ("crash",), "hit": "a"}),
        ("the root crashes", THREE, [TO_H], {"faults": 1, "kinds": ("crash",), "hit": "b"}),
        ("a store is lost", THREE, [TO_H], {"faults": 1, "kinds": ("lose",), "hit": "c"}),
        ("a leaf is cut off", THREE, [*cut("c"), TO_H], {}),
        ("the root is cut off", THREE, [*cut("b"), TO_G], {}),
        ("a voter of three is cut off", THREE, [*cut("c"), TO_H], {"voters": "abc"}),
        ("the manager of three is cut off", THREE, [*cut("a"), TO_H], {"voters": "abc"}),
    )
}

TWO_FAILURES: dict[str, Callable[[], Model]] = {
    f"{what}, {when}, {deliver}": partial(
        excluding, groups, calls, voters, deliver=deliver, patience=patience
    )
    for deliver in ("safe", "agreed")
    for what, groups, messages, voters, failures in (
        ("two sites, both crash", TWO, [TO_G], "a", (crash("a"), crash("b"))),
        ("two sites, a crash and a lost store", TWO, [TO_G], "a", (crash("a"), lose("b"))),
        ("two sites, a crash and a cut link", TWO, [TO_G], "a", (crash("b"), unlink("a", "b"))),
        ("root and leaf crash", THREE, [TO_H], "a", (crash("b"), crash("c"))),
        ("root and leaf crash, no message", THREE, [], "a", (crash("b"), crash("c"))),
        ("a crash and a lost store, no message", THREE, [], "a", (crash("b"), lose("c"))),
        ("manager and root crash", THREE, [TO_H], "a", (crash("a"), crash("b"))),
        ("two voters of three crash", THREE, [TO_H], "abc", (crash("a"), crash("b"))),
        ("a crash and a lost store", THREE, [TO_H], "a", (crash("b"), lose("c"))),
        ("a voter crashes, one loses its store", THREE, [TO_H], "abc", (crash("a"), lose("c"))),
        ("a crash and a cut link", THREE, [TO_H], "abc", (crash("c"), unlink("a", "b"))),
        ("two cut links", THREE, [TO_H], "abc", (unlink("a", "b"), unlink("b", "c"))),
        (
            "two cut links of the manager",
            THREE,
            [TO_H],
            "abc",
            (unlink("a", "b"), unlink("a", "c")),
        ),
    )
    for patience in (
        # Without any crash: until a manager is elected, and a site excluded.
        (1_500 if all(kind == "unlink" for _, kind, _ in failures) else 400) * MILLISECOND,
    )
    for when, calls in (
        ("at once", [*messages, *together(*failures)]),
        ("at any times", [*messages, *failures]),
    )
}

CASES: dict[str, Callable[[], Model]] = {
    **WAITING,
    **EXCLUDING,
    **TWO_FAILURES,
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
    "join, 1 message": 9_722,
    "leave, 1 message": 934,
    "switch, 1 message": 1_006,
    "join, any order": 689,
    "join, 3 voters": 633,
    "merge of two domains": 1_368,
    "join, 1 fault": 17_833,
    "two_phase: switch, 1 message": 3_989,
    "two_phase: leave, 1 loss": 5_177,
    "tom: switch, 1 message": 1_871,
    "tom: leave, 1 loss": 2_829,
    "two sites wait, a leaf crashes, safe": 193,
    "two sites wait, the root crashes, safe": 84,
    "two sites wait, a leaf is cut off, safe": 288,
    "two sites wait, the root is cut off, safe": 154,
    "two sites wait, a leaf crashes, agreed": 480,
    "two sites wait, the root crashes, agreed": 323,
    "two sites wait, a leaf is cut off, agreed": 186,
    "two sites wait, the root is cut off, agreed": 101,
    "two sites, a leaf crashes, safe": 2_423,
    "two sites, a leaf crashes, agreed": 3_030,
    "two sites, the root crashes, safe": 1_243,
    "two sites, the root crashes, agreed": 1_601,
    "two sites, a store is lost, safe": 1_269,
    "two sites, a store is lost, agreed": 1_579,
    "two sites, a leaf is cut off, safe": 3_288,
    "two sites, a leaf is cut off, agreed": 3_233,
    "two sites, the root is cut off, safe": 2_847,
    "two sites, the root is cut off, agreed": 2_659,
    "two sites, both crash, at once, safe": 649,
    "two sites, both crash, at once, agreed": 594,
    "two sites, a crash and a lost store, at once, safe": 899,
    "two sites, a crash and a lost store, at once, agreed": 809,
    "two sites, a crash and a cut link, at once, safe": 542,
    "two sites, a crash and a cut link, at once, agreed": 509,
}
