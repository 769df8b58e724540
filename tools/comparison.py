"""`python -m tools.comparison`: run all ordering protocols and write docs/comparison.md anew.

Every protocol gets the same messages in the simulator: over one drawn table, each member of each
group sends to it once, one message after the other. What is said of a protocol in words stands
here; every number on the page is measured, and a test holds the page to it.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.tables import Drawing, draw_table
from ordercast.plan.advice import advise
from ordercast.plan.protocols import PROFILES
from ordercast.sim.chance import Chance
from ordercast.sim.message_costs import PlannedSend, overhear

PAGE = Path(__file__).resolve().parent.parent / "docs" / "comparison.md"
DRAWN = Drawing(sites=20, groups=6, size=4)
SEED = 4
_APART = 7 * SECOND // 10  # between two messages


@dataclass(frozen=True, slots=True)
class Words:
    """What a table can say of a protocol. n: members; N: sites of the domain."""

    page: str
    delay: str
    messages: str
    stops: str
    order: str = "yes"
    causal: str = "on request"


WORDS: Mapping[str, Words] = {
    "propagation": Words(
        "protocols.md#propagation", "1 + depth", "n + ε",
        "a primary or relay: what passes it; a leaf: nobody",
    ),
    "centralized": Words(
        "protocols.md#centralized", "2", "n", "the centre: its domain; others: nobody",
    ),
    "metagroup": Words(
        "metagroup.md", "1 + depth", "n + ε",
        "a delegate: its metagroup and what passes it; others: nobody",
    ),
    "two_phase": Words(
        "two-phase.md", "3", "3(n − 1)",
        "a member: its groups; an origin: those it sends to",
    ),
    "symmetric": Words(
        "symmetric.md", "3, busy 1", "up to n + 1 + 2n(N − 2)", "any site: its domain", "yes",
        "always",
    ),
    "ring": Words(
        "ring.md", "N", "2N − 1", "any site: its domain", "yes", "always",
    ),
    "tom": Words(
        "tom.md", "path + depth", "n + path + edges",
        "an ordering node or a hop below it: what passes it; a hop above an origin: its messages",
        "yes; FIFO per receiver set",
    ),
    "arrow": Words(
        "swap.md", "1 + distance", "distance + N − 1", "any site: its domain", "yes", "always",
    ),
    "combining": Words(
        "swap.md", "1 + depth", "depth + N − 1", "any site: its domain", "yes", "always",
    ),
    "hybrid": Words(
        "swap.md", "1 + way", "way + N − 1", "any site: its domain", "yes", "always",
    ),
    "arrow_counting": Words(
        "swap.md", "1 + distance", "distance + N", "any site: its domain", "yes", "always",
    ),
    "combining_counting": Words(
        "swap.md", "1 + 2 depth", "2 depth + N − 1", "any site: its domain", "yes", "always",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over the messages of the run; `load`: messages at the busiest site, per message."""

    builder: str
    delay_ms: float
    messages: float
    transmissions: float
    load: float
    engaged: float


def run(protocol: str, table: GroupTable) -> Measured:
    builder = (PROTOCOLS[protocol].builders or ("greedy",))[0]
    # By the built-in partitioner: the page must not depend on what is installed.
    structure = Structure(1, table, advise(table, builder, partitioner="builtin").forest)
    sendings = _sendings(table)
    found = overhear(structure, protocol, sendings)
    delays, counts, transmissions, engaged = [], [], [], []
    loads: Counter[Site] = Counter()
    for message, sent in found.sent.items():
        end = max(found.had[message].values())
        heard = [frame for frame in found.heard if sent <= frame.at <= end]
        delays.append((end - sent) / MILLISECOND)
        counts.append(sum(len(frame.items) for frame in heard))
        transmissions.append(replace(found, heard=heard).transmissions())
        at = Counter(s for f in heard for _ in f.items for s in (f.source, f.peer))
        engaged.append(len(at))
        loads += at
    return Measured(
        builder, fmean(delays), fmean(counts), fmean(transmissions),
        max(loads.values()) / len(sendings), fmean(engaged),
    )  # fmt: skip


def _sendings(table: GroupTable) -> list[PlannedSend]:
    """Each member of each group once, in a drawn order."""
    pairs = [(site, group) for group, members in table.groups.items() for site in members]
    order = Chance(SEED, "order").sample(pairs, len(pairs))
    return [PlannedSend(_APART * place, *pair) for place, pair in enumerate(order)]


TEMPLATE = """\
# All ordering protocols on one screen

Pick one by its name (`--protocol`, `protocol =` in a cluster file, `ordercast protocol switch`).
`ordercast plan` makes this comparison for your groups, rates and network, and recommends one. The
page is written by `python -m tools.comparison`; a test holds it to what the protocols do.

## What they cost

Measured: {groups} random groups of {size} among {sites} sites, {domain} of them in one domain.
Each member sends to each of its groups once, one message after the other, in the simulator's
point-to-point network (P = 1 ms, L = 5 ms). Acknowledgements and reports of stability are not
counted. *With multicast*: equal content that a site sends to several others at one time is one
transmission. *Load*: what the busiest site sends and receives, per message. *Sites*: how many send
or receive anything for a message.

{costs}

n: members of the group; N: sites of the domain; ε: extra sites on the way; depth: hops down from
the primary, and with `combining` up to the root; path: from the origin up to the ordering node;
distance: in the tree, to the origin of the message before; edges: of the tree, down to the members.
One hop and one message less where the primary, centre or ordering node is the origin; one message
more where the centre or the ordering node is no member.

## What they guarantee, and what a crash stops

{guarantees}

- All of them: both levels, integrity, agreement, batches, listed sites, origins anywhere, and live
  switches from any to any (all 66 pairs). The switches were tried in a campaign, which is not run
  anew with this page: each pair at least four times each way, 541 schedules with 2,514 crashes, no
  counterexample. [guarantees.md](guarantees.md) has the details.
- What a crash stops holds at `agreed`, while windows last; at `safe` every group of the crashed
  site waits, too. Under `exclude` the wait ends with the timeout.
- *Genuine*: only the origin and the members take part. *Relays too*: sites on the way between them
  as well. *No*: every site of the domain hears of every message. One group alone is its domain, and
  there they all are genuine.
- Delays are those of an idle domain; the load says how many messages a second it can take.
  `symmetric` asks less the more its sites send, and `combining` combines more. A busy `ring` needs
  no calls; an idle one goes on turning, which is not counted here.
- The two counting forms are baselines. What swapping saves:
  `ordercast reproduce --only swap-latency swap-locality`. The papers' formulas beside the
  protocols: `ordercast reproduce --only gs-table1 gs-table2 tom-table1 tom-figure5`
  ([sweeps.md](sweeps.md)); what that measured: [beside-the-papers.md](beside-the-papers.md).
"""


def page() -> str:
    table = draw_table(DRAWN, SEED)
    return TEMPLATE.format(
        groups=DRAWN.groups,
        size=DRAWN.size,
        sites=DRAWN.sites,
        domain=max(len(sites) for sites, _ in IndexedTable.of(table).domains()),
        costs="\n".join(_costs({name: run(name, table) for name in WORDS})),
        guarantees="\n".join(_guarantees()),
    )


def _costs(found: Mapping[str, Measured]) -> Iterator[str]:
    yield (
        "| protocol | on forest | hops | delay, ms | messages | measured | with multicast | load |"
        " sites | genuine |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, words in WORDS.items():
        cost = found[name]
        yield (
            f"| [`{name}`]({words.page}) | {cost.builder} | {words.delay} | {cost.delay_ms:.1f} |"
            f" {words.messages} | {cost.messages:.1f} | {cost.transmissions:.1f} |"
            f" {cost.load:.1f} | {cost.engaged:.1f} | {PROFILES[name].genuine} |"
        )


def _guarantees() -> Iterator[str]:
    yield "| protocol | total and acyclic order | causal order | policies | a crash of … stops |"
    yield "|---|---|---|---|---|"
    for name, words in WORDS.items():
        info = PROTOCOLS[name]
        policies = [
            f"`{p}`" for p, able in (("exclude", info.exclude), ("wait", info.wait)) if able
        ]
        causal = words.causal if info.causal else "no"
        yield (f"| `{name}` | {words.order} | {causal} | {', '.join(policies)} | {words.stops} |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE}", file=sys.stderr)
