"""All reproductions by name, and those that wait for their protocols."""

from collections.abc import Mapping, Sequence

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest
from ordercast.pipeline.reproduce import gs, scale, stab, tom
from ordercast.pipeline.reproduce.kinds import Reproduction

CATALOGUE: Mapping[str, Reproduction] = {
    each.name: each
    for each in (*gs.REPRODUCTIONS, *tom.REPRODUCTIONS, *stab.REPRODUCTIONS, *scale.REPRODUCTIONS)
}

LATER: Mapping[str, str] = {
    "swap-latency": "the swap protocols of [SWAP]",
    "swap-locality": "the swap protocols of [SWAP]",
}


def named(names: Sequence[str]) -> list[Reproduction]:
    """Those asked for, each once, in the catalogue's order; all of them when none is named."""
    for name in names:
        if name in LATER:
            raise ConfigError(f"--only: {name!r} comes with {LATER[name]}, which are not built yet")
        if name not in CATALOGUE:
            hint = nearest(name, [*CATALOGUE, *LATER])
            raise ConfigError(
                f"--only: there is no {name!r}{hint}; 'ordercast reproduce --help' lists them"
            )
    return [each for name, each in CATALOGUE.items() if not names or name in names]
