"""What a reproduction is: the points to run, the figure to draw, the paper's words to compare."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.pipeline.sweeps.swept_verb import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1988


AGREES, PARTLY, DIFFERS, MEASURED = "agrees", "partly", "differs", "measured"
CLAIM, OURS, INTERVAL = "claim", "ours", "interval"


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement beside the measurement, and whether the two agree: at all points, at some, or at
    none. `measured`: the paper says nothing to agree with. `kind`: a claim of the paper, a
    statement of our own, or the width of the intervals. A claim that is judged in several places
    has the same `claim` in each; without `claim` the statement is its name."""

    statement: str
    verdict: str
    measured: str
    kind: str = CLAIM
    claim: str = ""


def judged(cases: Sequence[bool]) -> str:
    if all(cases):
        return AGREES
    return PARTLY if any(cases) else DIFFERS


@dataclass(frozen=True, slots=True)
class Family:
    """Reproductions that share their runs. `split` names the column for the part of a measure's
    name before the slash."""

    name: str
    experiment: Experiment
    split: str = "protocol"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """`says` is what the paper says, `how` what is done here."""

    name: str
    title: str
    source: str
    says: Sequence[str]
    how: str
    family: Family
    points: Callable[[bool], Sequence[Mapping[str, Any]]]
    repeats: Callable[[bool], Repeats]
    measures: Sequence[str]
    draw: Callable[[Results], "Figure"]
    find: Callable[[Results], Sequence[Finding]]

    def table(self, results: Results) -> Results:
        """The rows that belong here, the protocol or builder in a column of its own."""
        rows = []
        for row in results.rows:
            subject, slash, measure = row.measure.rpartition("/")
            if row.error is None and measure not in self.measures:
                continue
            extra = {self.family.split: subject} if slash else {}
            rows.append(replace(row, parameters={**row.parameters, **extra}, measure=measure))
        return Results.of(rows)


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a curve."""

    x: float
    y: float
    ci: float


def together(verdicts: Sequence[str]) -> str:
    """The verdict on a claim that was judged in several places."""
    told = [verdict for verdict in verdicts if verdict != MEASURED]
    if not told:
        return MEASURED
    return told[0] if len(set(told)) == 1 else PARTLY


def curve(results: Results, x: str, measure: str, **where: Any) -> list[Spot]:
    """A measure against a parameter, in its order."""
    rows = results.where(measure=measure, **where)
    spots = [Spot(r.parameters[x], r.mean, r.ci95 or 0.0) for r in rows if r.mean is not None]
    return sorted(spots, key=lambda spot: spot.x)


def values(results: Results, parameter: str) -> list[Any]:
    """The values that a parameter has, in their order."""
    found = {row.parameters[parameter] for row in results.rows if parameter in row.parameters}
    return sorted(found)


def until(*bounds: Precision, quick: int, full: int) -> Callable[[bool], Repeats]:
    """Repeat until the bounds hold, at least this many times: fewer if it is to be quick."""
    return lambda is_quick: Repeats(quick if is_quick else full, 1000, bounds)
