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


def named(names: Sequence[str], without: Sequence[str] = ()) -> list[Reproduction]:
    """The reproductions asked for, each once, in the catalogue's order; all of them when none is
    named. Raises ConfigError for a name that there is not, and if none is left."""
    _require_known("--only", names)
    _require_known("--except", without)
    wanted = [
        each
        for name, each in CATALOGUE.items()
        if (not names or name in names) and name not in without
    ]
    if not wanted:
        raise ConfigError("--except: leaves nothing to do")
    return wanted


def _require_known(option: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in CATALOGUE:
            hint = nearest(name, CATALOGUE)
            raise ConfigError(
                f"{option}: there is no {name!r}{hint}; 'ordercast reproduce --list' tells all"
            )
