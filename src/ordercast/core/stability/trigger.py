"""When to begin a round ([STAB] §6, mended by errata STAB-6).

A member keeps its own messages until they are stable, g at most: when its buffer is full it has to
stop. A round begins when a buffer holds X messages. During a round, which takes f, Q = rf more are
sent; at its end αX of those that were there are stable. So X must be at most g − Q, or the buffer
overflows during the first round, and (1 − α)X + 2Q at most g, or it does during the second: both
are upper bounds, and X is the lesser of them (the paper prints the greater). Senders never have to
stop if and only if g ≥ Q(1 + 1/α); then X = g − Q.

Q and α are not known beforehand but measured, round by round. In the paper only the root's buffer
begins a round, so what a silent root's group has sent, or one lone message, never becomes stable:
here any member whose buffer holds X, or whose oldest message has waited for `patience`, asks.
"""


def best_limit(buffer: int, meanwhile: int, stable: int, asked: int) -> int:
    """X for a buffer of `buffer`, when `meanwhile` messages are sent during a round, and of `asked`
    that are there when it begins `stable` are stable at its end. At least 1."""
    limit = buffer - meanwhile
    if stable < asked:
        limit = min(limit, (buffer - 2 * meanwhile) * asked // (asked - stable))
    return max(1, limit)


def never_stops(buffer: int, meanwhile: int, stable: int, asked: int) -> bool:
    """Whether senders can go on for ever with the best X: g ≥ Q(1 + 1/α)."""
    return buffer * stable >= meanwhile * (stable + asked)


class Trigger:
    """One member's. `limit` fixes X; otherwise it follows from what was measured, and is half the
    buffer as long as nothing was.

    The longest round fades by an eighth with each that is shorter; of α the last round counts as
    much as all before it.
    """

    def __init__(self, buffer: int, patience: int, limit: int | None = None) -> None:
        self.buffer = buffer
        self.patience = patience  # nanoseconds
        self._fixed = limit
        self._measured = False
        self._begun = 0  # when
        self._held = 0  # then
        self._sending = (0, 1)  # the rate r then: so many messages in so many nanoseconds
        self._round = 0  # f, in nanoseconds
        self._stable = 0
        self._asked = 0

    @property
    def meanwhile(self) -> int:
        """Q = rf, rounded up."""
        messages, took = self._sending
        return -(-messages * self._round // took)

    @property
    def took(self) -> int:
        """f: how long a round takes, in nanoseconds."""
        return self._round

    @property
    def limit(self) -> int:
        if self._fixed is not None:
            return self._fixed
        if not self._measured:
            return max(1, self.buffer // 2)
        return best_limit(self.buffer, self.meanwhile, self._stable, self._asked)

    def due(self, held: int, oldest: int, now: int) -> bool:
        """Whether a round should begin: `held` messages are not stable, the first of them was sent
        at `oldest`."""
        return held > 0 and (held >= self.limit or now >= oldest + self.patience)

    def begun(self, held: int, oldest: int, newest: int, now: int) -> None:
        """A round begins while so many messages are held, the first and the last of them sent at
        these times (of which the rate follows: a sender that had to stop sends nothing newer)."""
        self._begun = now
        self._held = held
        if held > 1 and newest > oldest:
            self._sending = (held - 1, newest - oldest)

    def ended(self, released: int, now: int) -> None:
        """It has ended, and so many of those held when it began are released."""
        self._measured = True
        self._round = max(now - self._begun, self._round - self._round // 8)
        self._stable = self._stable // 2 + released
        self._asked = self._asked // 2 + self._held
