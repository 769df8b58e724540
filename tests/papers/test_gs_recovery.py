"""[GS] §5.2.1, the example of Figures 6-9: c fails, survivors fill in, c returns and rolls back.

The figures' histories are not in the text (errata GS-12). Reconstructed from the prose, assuming:
- The graph of Figure 6 is the one that the generator gives: a at the root, b and c below it, d and
  e below c; a orders α and γ, c orders β. Figure 7 is what it gives without c: e below d below a.
- Before: α1, α2 and γ1 are everywhere. β1 has reached c and d, not e; then d hears nothing from c
  either. c delivers β2, α3, β3, in this order; α3 has reached a and b by itself.
- Messages to β come from b, which is no member and stays, those to α and γ from a, the manager.
- Delivery is at the level `agreed`: the paper delivers a message when it is placed.
What the paper does by asking sources for what is missing is done by the sources: they learn what
the closed epoch includes, and send the rest again (errata GS-12).
"""

import pytest

from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World

GROUPS = {"α": list("abcde"), "β": list("cde"), "γ": list("ab")}
NAMES = {"α": "alpha", "β": "beta", "γ": "gamma"}
FIGURE_6 = {"a": None, "b": "a", "c": "a", "d": "c", "e": "c"}  # who is below whom
FIGURE_7 = {"a": None, "b": "a", "d": "a", "e": "d"}
SOURCE = {"α": "a", "β": "b", "γ": "a"}


class Example:
    def __init__(self) -> None:
        self.world = World(
            {NAMES[group]: members for group, members in GROUPS.items()},
            list("abcde"),
            ["a", "b", "d"],
            policy="exclude",
            deliver="agreed",
        )
        self.world.run(SECOND)

    def send(self, *messages: str) -> None:
        for message in messages:
            group = message[0]
            self.world.submit(SOURCE[group], NAMES[group], message.encode())
            self.world.run(self.world.now + 20 * MILLISECOND)

    def cut(self, *pairs: str) -> None:
        self.world.cut |= {frozenset(pair) for pair in pairs}

    def history(self, site: str) -> str:
        return " ".join(payload.decode() for _, _, payload in self.world.seen[site])

    def until_all_have(self, sites: str, message: str) -> None:
        while not all(self.history(site).endswith(message) for site in sites):
            assert self.world.now < 20 * SECOND
            self.world.run(self.world.now + 10 * MILLISECOND)


@pytest.fixture(scope="module")
def failed() -> Example:
    """Figure 6: the histories when c fails."""
    example = Example()
    example.send("α1", "γ1", "α2")
    example.cut("ce")
    example.send("β1")
    example.cut("cd")
    example.send("β2", "α3", "β3")
    return example


def test_the_whole_example(failed: Example) -> None:
    world = failed.world
    tree = world.members["a"].layout.domains[1].structure
    assert {site: tree.parent(site) for site in "abcde"} == FIGURE_6
    assert (tree.primary("alpha"), tree.primary("beta")) == ("a", "c")

    # Figure 6
    assert failed.history("a") == failed.history("b") == "α1 γ1 α2 α3"
    assert failed.history("c") == "α1 α2 β1 β2 α3 β3"
    assert failed.history("d") == "α1 α2 β1"
    assert failed.history("e") == "α1 α2"
    world.crash("c", 4 * SECOND)

    # Figures 7 and 8: α3 is filled in at d and e, β1 at e; β2 and β3 are found by their sources
    failed.until_all_have("de", "β3")
    tree = world.members["a"].layout.domains[2].structure
    assert {site: tree.parent(site) for site in "abde"} == FIGURE_7
    assert tree.primary("beta") == "d"
    assert failed.history("d") == failed.history("e") == "α1 α2 β1 α3 β2 β3"
    epochs = {payload.decode(): epoch for epoch, _, payload in world.seen["e"]}
    assert epochs == {"α1": 1, "α2": 1, "β1": 1, "α3": 1, "β2": 2, "β3": 2}
    assert failed.history("a") == "α1 γ1 α2 α3"
    assert world.rollbacks == []  # only a failed site may have delivered in the wrong order

    # Figure 9: c rolls back β2, α3 and β3, and delivers them again in the order of d
    world.cut.clear()
    world.settle()
    ((site, rollback),) = world.rollbacks
    annulled = [(message.group, message.seq) for _, message in rollback.annulled]
    assert (site, rollback.position) == ("c", 3)
    assert annulled == [("beta", 2), ("alpha", 3), ("beta", 3)]
    assert failed.history("c") == failed.history("d")
    assert world.judge() == []
