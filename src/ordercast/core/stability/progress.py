"""How tracking gets on at a site, for operators."""

from dataclasses import dataclass

from ordercast.model.groups import Group, Site


@dataclass(frozen=True, slots=True)
class Progress:
    unstable: int  # messages in the log here that are not final
    rounds: int  # that have ended since the site started in this epoch
    round_ns: int  # how long they take, as seen from here
    limit: int  # so many unstable messages call for a round; 0 where there are none
    to_final_ns: int  # from the log to final: the last message that was looked at
    slowest_to_final_ns: int  # the slowest of them
    measured: int  # how many were looked at,
    all_to_final_ns: int  # and how long they took together
    waits_for: tuple[Site, ...]  # the sites that a round has waited for, for long


class TimeToFinal:
    """One message at a time is looked at, from the log to where it is final everywhere."""

    def __init__(self) -> None:
        self.last = self.slowest = self.count = self.total = 0
        self._message: tuple[Group, int] | None = None
        self._since = 0

    def logged(self, group: Group, number: int, now: int) -> None:
        if self._message is None:
            self._message, self._since = (group, number), now

    def final(self, group: Group, number: int, now: int) -> None:
        if self._message is not None and self._message[0] == group and self._message[1] <= number:
            self._message = None
            self.last = now - self._since
            self.slowest = max(self.slowest, self.last)
            self.count += 1
            self.total += self.last
