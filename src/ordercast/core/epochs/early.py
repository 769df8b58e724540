"""Frames that came before this site can look at them: of an epoch that it has not opened yet, or
before the voters know its store. Nobody would send them again soon, so a few are held."""

from ordercast.core.observation import Observation
from ordercast.model.groups import Site
from ordercast.wire.epochs import InEpoch

_MOST = 1_024


class Early:
    def __init__(self) -> None:
        self._held: list[tuple[Site, InEpoch]] = []

    def hold(self, peer: Site, frame: InEpoch) -> None:
        if len(self._held) < _MOST:
            self._held.append((peer, frame))

    def take(self) -> list[tuple[Site, InEpoch]]:
        held, self._held = self._held, []
        return held

    def observation(self) -> Observation:
        return ("early frames", len(self._held), _MOST)
