"""When to begin a round ([STAB] §6, mended by ERRATA STAB-6).

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
    """One member's. `limit` fixes X; otherwise it follows from what was measured.

    Measurements fade: the last round counts as much as all before it together.
    """

    def __init__(self, buffer: int, patience: int, limit: int | None = None) -> None:
        self.buffer = buffer
        self.patience = patience  # nanoseconds
        self._fixed = limit
        self._sent_at = 0  # when the round began
        self._asked_at = 0
        self._meanwhile = 0
        self._stable = 0
        self._asked = 0

    @property
    def limit(self) -> int:
        if self._fixed is not None:
            return self._fixed
        return best_limit(self.buffer, self._meanwhile, self._stable, self._asked)

    def due(self, held: int, oldest: int, now: int) -> bool:
        """Whether a round should begin: `held` messages are not stable, the first of them was sent
        at `oldest`."""
        return held > 0 and (held >= self.limit or now >= oldest + self.patience)

    def begun(self, held: int, sent: int) -> None:
        """A round begins, with so many messages held and sent so far."""
        self._asked_at = held
        self._sent_at = sent

    def ended(self, released: int, sent: int) -> None:
        """It has ended, and so many of those held when it began are released."""
        self._meanwhile = max(sent - self._sent_at, (self._meanwhile + sent - self._sent_at) // 2)
        self._stable = self._stable // 2 + released
        self._asked = self._asked // 2 + self._asked_at
