"""How long an excluded site waits before it is let back. Each pause is longer, so that a site does
not go and return again and again. Only the manager knows the pauses; the next manager begins
anew."""

from ordercast.model.groups import Site

_FIRST, _LONGEST = 2, 128  # times the timeout of a silent site
_WELL = 4  # times its last pause: a site that stayed so long begins with the first pause again


class Pauses:
    """State: the last pause of each site, and when it ends."""

    def __init__(self, suspect: int) -> None:
        self._suspect = suspect
        self._known: dict[Site, tuple[int, int]] = {}

    def begin(self, now: int, site: Site, *, returned: bool = True) -> None:
        """The site is excluded because it is apart from another, slow, or stuck in a flush.
        `returned`: an epoch was open for it. A flush that did not end is no stay."""
        pause, until = self._known.get(site, (0, now))
        stayed = returned and now - until > _WELL * pause
        pause = _FIRST * self._suspect if stayed or not pause else 2 * pause
        pause = min(pause, _LONGEST * self._suspect)
        self._known[site] = (pause, now + pause)

    def over(self, now: int, site: Site) -> bool:
        return site not in self._known or now >= self._known[site][1]
