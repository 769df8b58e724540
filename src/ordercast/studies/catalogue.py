"""All reproductions by name."""

from collections.abc import Mapping, Sequence

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest
from ordercast.studies import scale
from ordercast.studies.gs import reproductions as gs
from ordercast.studies.internet import reproductions as internet
from ordercast.studies.reproduction import Reproduction
from ordercast.studies.stab import reproductions as stab
from ordercast.studies.swap import reproductions as swap
from ordercast.studies.tom import reproductions as tom

CATALOGUE: Mapping[str, Reproduction] = {
    each.name: each
    for each in (
        *gs.REPRODUCTIONS,
        *tom.REPRODUCTIONS,
        *swap.REPRODUCTIONS,
        *stab.REPRODUCTIONS,
        *scale.REPRODUCTIONS,
        *internet.REPRODUCTIONS,
    )
}


def named(names: Sequence[str]) -> list[Reproduction]:
    """Those asked for, each once, in the catalogue's order; all of them when none is named."""
    for name in names:
        if name not in CATALOGUE:
            hint = nearest(name, CATALOGUE)
            raise ConfigError(
                f"--only: there is no {name!r}{hint}; 'ordercast reproduce --list' tells all"
            )
    return [each for name, each in CATALOGUE.items() if not names or name in names]
