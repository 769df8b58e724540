"""A sweep's spec file: which verb, over which grid, how often, with which seed.

    [sweep]
    verb = "plan"
    seed = 1
    until = {measure = "depth_mean", within = "10%"}    # or: repeat = 20

    [grid]
    sites = [50, 100, 200]
    builder = ["greedy", "balanced"]

    [fixed]
    groups = 20
    size = 5

Every mistake is one line that names the file, the field and the value.
"""

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError, reason
from ordercast.model.names import nearest, require_keys, shown
from ordercast.model.verb_options import VerbOption
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.pipeline.sweeps.swept_verb import VERBS, Config, swept_verb

MOST_POINTS = 100_000
AT_LEAST, AT_MOST = 10, 1000  # runs of a point, when `until` does not say

# Of every verb, or of none.
_ELSEWHERE = {
    "seed": "[sweep] seed gives every run its own",
    "history": "write [sweep] history = true",
    "json": "it shapes the output",
}

_TABLES = ("sweep", "grid", "fixed")
_SWEEP = ("verb", "seed", "repeat", "until", "history", "seconds")
_UNTIL = ("measure", "within", "plus_minus", "at_least", "at_most")


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often each point is run: `at_least` times, then more until all bounds hold or there are
    `at_most`. Without bounds the two are equal."""

    at_least: int
    at_most: int
    bounds: tuple[Precision, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """`files` holds the text of every file that an option names, by the name it is given there."""

    source: str
    verb: str
    seed: int
    repeats: Repeats
    grid: Mapping[str, tuple[Any, ...]]
    fixed: Config
    history: bool = False
    seconds: bool = False
    files: dict[str, str] = field(default_factory=dict)

    def configs(self) -> Iterator[dict[str, Any]]:
        """The points of the grid, the last option varying fastest. Raises nothing."""
        for values in itertools.product(*self.grid.values()):
            yield {**dict(zip(self.grid, values, strict=True)), **self.fixed}

    def read(self, path: str) -> str:
        """A file's text, from beside the spec file; remembered, since workers have no files.
        Raises ConfigError if it cannot be read."""
        if path not in self.files:
            self.files[path] = _read(Path(self.source).parent / path, path)
        return self.files[path]


def read_spec(path: str) -> SweepSpec:
    """The spec in a file. Raises ConfigError for every mistake in it."""
    return parse_spec(_read(Path(path), path), source=path)


def parse_spec(text: str, *, source: str) -> SweepSpec:
    """The spec in a text. `source` names its file in errors; files that options name are looked for
    beside it. Raises ConfigError for every mistake in it."""
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # also of numbers with thousands of digits
        raise ConfigError(f"{source}: {error}") from None
    require_keys(data, _TABLES, source)
    if "sweep" not in data:
        raise ConfigError(f"{source}: the table [sweep] is missing")
    sweep = _table(data, "sweep", source)
    require_keys(sweep, _SWEEP, f"{source}: sweep")
    verb = _verb(sweep, source)
    spec = SweepSpec(
        source=source,
        verb=verb,
        seed=_whole(sweep, "seed", 1, f"{source}: sweep", least=0),
        repeats=_repeats(sweep, verb, f"{source}: sweep"),
        grid=_grid(_table(data, "grid", source), verb, f"{source}: grid"),
        fixed={
            _option_named(name, verb, f"{source}: fixed"): value
            for name, value in _table(data, "fixed", source).items()
        },
        history=_flag(sweep, "history", f"{source}: sweep"),
        seconds=_flag(sweep, "seconds", f"{source}: sweep"),
    )
    _check(spec)
    return spec


def _check(spec: SweepSpec) -> None:
    verb = swept_verb(spec.verb)
    for option in spec.grid:
        if option in spec.fixed:
            raise ConfigError(f"{spec.source}: fixed.{option}: is in [grid] as well")
    points = 1
    for option, values in spec.grid.items():
        points *= len(values)
        for value in values:
            _check_value(verb.options[option], value, f"{spec.source}: grid", spec)
    for option, value in spec.fixed.items():
        _check_value(verb.options[option], value, f"{spec.source}: fixed", spec)
    if points > MOST_POINTS:
        raise ConfigError(f"{spec.source}: grid: {points:,} points are too many ({MOST_POINTS:,})")
    if spec.history and not verb.has_history:
        raise ConfigError(f"{spec.source}: sweep.history: only runs of 'sim' have a history")


def _verb(sweep: Config, source: str) -> str:
    verb = sweep.get("verb")
    where = f"{source}: sweep.verb"
    if verb is None:
        raise ConfigError(f"{where}: is missing (one of {', '.join(VERBS)})")
    if not isinstance(verb, str) or verb not in VERBS:
        hint = nearest(verb, VERBS) if isinstance(verb, str) else ""
        raise ConfigError(f"{where}: there is no {shown(verb)} to sweep{hint}")
    return verb


def _repeats(sweep: Config, verb: str, where: str) -> Repeats:
    if "until" not in sweep:
        runs = _whole(sweep, "repeat", 1, where, least=1)
        return Repeats(runs, runs)
    if "repeat" in sweep:
        raise ConfigError(f"{where}: 'repeat' and 'until' exclude each other")
    given = sweep["until"]
    pieces = given if isinstance(given, list) else [given]
    if not pieces or not all(isinstance(piece, dict) for piece in pieces):
        raise ConfigError(
            f'{where}.until: must be like {{measure = "…", within = "10%"}}, not {shown(given)}'
        )
    least, most, bounds = 2, 0, []
    for piece in pieces:
        require_keys(piece, _UNTIL, f"{where}.until")
        bounds.append(_bound(piece, verb, f"{where}.until"))
        least = max(least, _whole(piece, "at_least", AT_LEAST, f"{where}.until", least=2))
        most = max(most, _whole(piece, "at_most", AT_MOST, f"{where}.until", least=2))
    return Repeats(least, max(least, most), tuple(bounds))


def _bound(piece: Config, verb: str, where: str) -> Precision:
    measure = piece.get("measure")
    known = (*swept_verb(verb).measures, "seconds")
    if not isinstance(measure, str) or measure not in known:
        hint = nearest(measure, known) if isinstance(measure, str) else ""
        raise ConfigError(f"{where}.measure: '{verb}' does not measure {shown(measure)}{hint}")
    if ("within" in piece) == ("plus_minus" in piece):
        raise ConfigError(
            f"{where}: give 'within' (a share of the mean) or 'plus_minus' (a width), one of them"
        )
    if "within" in piece:
        return Precision(measure, share=_share(piece["within"], f"{where}.within"))
    width = piece["plus_minus"]
    if isinstance(width, bool) or not isinstance(width, int | float) or not width > 0:
        raise ConfigError(f"{where}.plus_minus: {shown(width)} is not a number above 0")
    return Precision(measure, width=float(width))


def _share(value: Any, where: str) -> float:
    """`"10%"` or 0.1."""
    share: float | None = None
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            share = float(value.strip()[:-1]) / 100
        except ValueError:
            share = None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(value)
    if share is None or not 0 < share < 1:
        raise ConfigError(
            f'{where}: {shown(value)} is no share of the mean (write "10%" or 0.1;'
            " 'plus_minus' is for a width)"
        )
    return share


def _grid(data: Config, verb: str, where: str) -> dict[str, tuple[Any, ...]]:
    grid: dict[str, tuple[Any, ...]] = {}
    for name, values in data.items():
        option = _option_named(name, verb, where)
        if not isinstance(values, list):
            raise ConfigError(f"{where}.{name}: must be a list of values, not {shown(values)}")
        if not values:
            raise ConfigError(f"{where}.{name}: has no values")
        texts = [json.dumps(value, sort_keys=True, default=str) for value in values]
        for place, text in enumerate(texts):
            if text in texts[:place]:
                raise ConfigError(f"{where}.{name}: {shown(values[place])} is listed twice")
        grid[option] = tuple(values)
    return grid


def _option_named(name: str, verb: str, where: str) -> str:
    """The option's name as it is used here: `on-failure` is `on_failure`."""
    plain = name.replace("-", "_")
    options = swept_verb(verb).options
    why = options[plain].unswept if plain in options else _ELSEWHERE.get(plain, "")
    if why:
        raise ConfigError(f"{where}.{name}: is not swept: {why}")
    if plain not in options:
        known = [option.name for option in options.values() if not option.unswept]
        raise ConfigError(f"{where}: '{verb}' has no option {shown(name)}{nearest(plain, known)}")
    return plain


def _check_value(option: VerbOption, value: Any, where: str, spec: SweepSpec) -> None:
    option.notation.check(value, f"{where}.{option.name}", spec.read)


def _table(data: Mapping[str, Any], name: str, source: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name}: must be a table, not {shown(table)}")
    return table


def _whole(data: Config, name: str, default: int, where: str, *, least: int) -> int:
    value = data.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{where}.{name}: {shown(value)} is not a whole number from {least} on")
    return value


def _flag(data: Config, name: str, where: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}.{name}: {shown(value)} is neither true nor false")
    return value


def _read(path: Path, told: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{told}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{told}: is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # e.g. a null character in the name
        raise ConfigError(f"{told!r}: {error}") from None
