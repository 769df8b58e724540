"""When to begin a round ([STAB] §6, mended by errata STAB-6).

A member keeps its own messages until they are stable, g at most: when its buffer is full it stops
sending. A round begins when a buffer holds X messages. A round takes the time f, in which Q = rf
more messages are sent. At its end αX of the X messages are stable. So X must be at most g − Q, or
the buffer overflows during the first round; and (1 − α)X + 2Q must be at most g, or it overflows
during the second. Both are upper bounds, and X is the lesser (the paper prints the greater).
Senders never have to stop if and only if g ≥ Q(1 + 1/α); then X = g − Q.

Q and α are not known beforehand; they are measured, round by round. In the paper only the root's
buffer begins a round. Then a lone message, or the messages of others while the root is silent,
never become stable. Here any member asks for a round if its buffer holds X messages, or if its
oldest message has waited for `patience`.
"""


def best_limit(buffer: int, meanwhile: int, stable: int, asked: int) -> int:
    """X, at least 1, for a buffer of `buffer` messages. During a round `meanwhile` messages are
    sent. Of `asked` messages in the buffer when it begins, `stable` are stable at its end."""
    limit = buffer - meanwhile
    if stable < asked:
        limit = min(limit, (buffer - 2 * meanwhile) * asked // (asked - stable))
    return max(1, limit)


class Trigger:
    """The trigger of one member. `limit` fixes X; otherwise X follows from measurements. Before the
    first one it is half the buffer.

    f is the longest round; it shrinks by an eighth with each shorter round. In α the last round
    counts as much as all rounds before it.
    """

    def __init__(self, buffer: int, patience: int, limit: int | None = None) -> None:
        self.buffer = buffer
        self.patience = patience  # nanoseconds
        self._fixed = limit
        self._measured = False
        self._begun = 0  # when the last round began
        self._held = 0  # how many messages were held then
        self._sending = (0, 1)  # the rate r then: (messages, nanoseconds)
        self._round = 0  # f, in nanoseconds
        self._stable = 0
        self._asked = 0
        self.limit = max(1, buffer // 2) if limit is None else limit  # X

    @property
    def meanwhile(self) -> int:
        """Q = rf, rounded up."""
        messages, took = self._sending
        return -(-messages * self._round // took)

    @property
    def took(self) -> int:
        """f: how long a round takes, in nanoseconds."""
        return self._round

    def _choose(self) -> None:
        if self._measured and self._fixed is None:
            self.limit = best_limit(self.buffer, self.meanwhile, self._stable, self._asked)

    def due(self, held: int, oldest: int, now: int) -> bool:
        """Whether a round should begin. `held` messages are not stable; the first of them was sent
        at `oldest`."""
        return held > 0 and (held >= self.limit or now >= oldest + self.patience)

    def begun(self, held: int, oldest: int, newest: int, now: int) -> None:
        """A round begins while `held` messages are held. The first was sent at `oldest`, the last
        at `newest`. This gives the rate, also of a sender that had to stop after `newest`."""
        self._begun = now
        self._held = held
        if held > 1 and newest > oldest:
            self._sending = (held - 1, newest - oldest)
            self._choose()

    def ended(self, released: int, now: int) -> None:
        """The round has ended. It released `released` of the messages held when it began."""
        self._measured = True
        self._round = max(now - self._begun, self._round - self._round // 8)
        self._stable = self._stable // 2 + released
        self._asked = self._asked // 2 + self._held
        self._choose()
