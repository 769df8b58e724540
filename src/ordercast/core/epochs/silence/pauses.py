"""How long an excluded site waits before it is let back, and how long one that came without its
store before it may come without it again. Each pause is longer, so that a site does not go and
return again and again. Only the manager knows the pauses; the next manager begins anew."""

from ordercast.model.groups import Site

_LONGEST = 64  # times the first pause, unless another one is named
_WELL = 4  # times its last pause: a site that stayed so long begins with the first pause again


class Pauses:
    """State: the last pause of each site, and when it ends."""

    def __init__(self, first: int, longest: int | None = None) -> None:
        self._first = first  # ns
        self._longest = _LONGEST * first if longest is None else longest
        self._known: dict[Site, tuple[int, int]] = {}

    def begin(self, now: int, site: Site, *, returned: bool = True) -> None:
        """`returned`: an epoch was open for the site. A flush that did not end is no stay."""
        pause, until = self._known.get(site, (0, now))
        stayed = returned and now - until > _WELL * pause
        pause = self._first if stayed or not pause else 2 * pause
        pause = min(pause, self._longest)
        self._known[site] = (pause, now + pause)

    def over(self, now: int, site: Site) -> bool:
        return site not in self._known or now >= self._known[site][1]
