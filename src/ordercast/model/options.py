"""How a site behaves: delivery level, failure policy, causality, limits. Times are nanoseconds."""

from dataclasses import dataclass, field

from ordercast.model.grants import Grants

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
NEVER = 1 << 62
"""A time behind all others: that of an alarm that is not set."""

LEVELS = ("safe", "agreed")
POLICIES = ("exclude", "wait")
DURABILITIES = ("sync", "os", "memory")


@dataclass(frozen=True, slots=True)
class Limits:
    """A bound on everything that can grow."""

    message_bytes: int = 1_048_576
    window_messages: int = 10_000  # accepted here and not yet stable
    window_bytes: int = 8_388_608
    link_items: int = 1_024  # sent on a lane of a link and not yet acknowledged
    link_bytes: int = 16_777_216  # of them, unless one alone is larger
    frame_items: int = 256
    frame_bytes: int = 262_144  # payload bytes after which a frame is closed
    held_batches: int = 20_000  # of the past, at a site that orders or forwards them
    checkpoint_batches: int = 256  # batches held before the past is folded into a checkpoint
    checkpoint_bytes: int = 4_194_304  # or so many bytes of them
    missed_bytes: int = 268_435_456  # kept for absent sites; beyond it they return by a snapshot


@dataclass(frozen=True, slots=True)
class Timing:
    ack_delay: int = 5 * MILLISECOND
    ack_every: int = 64  # items received before an acknowledgement is sent without delay
    resend_after: int = 200 * MILLISECOND  # doubles up to resend_at_most
    resend_at_most: int = 2 * SECOND
    repair_again: int = 50 * MILLISECOND
    report_delay: int = 20 * MILLISECOND  # of a report that nobody waits for
    report_every: int = 2_048  # messages to a group before a report is sent without delay
    suspect: int = SECOND  # of silence, before a site is excluded
    hold: int = 0  # of a request, for others to combine with ([SWAP] §5; 0: to the burst's end)


@dataclass(frozen=True, slots=True)
class Options:
    deliver: str = "safe"  # one of LEVELS
    on_failure: str = "exclude"  # one of POLICIES
    causal: bool = False
    stability: str = "plain"
    slow_member: str = "wait"  # or, under `exclude`, "exclude"
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    grants: Grants = field(default_factory=Grants)  # of the cluster file, until the log has some

    @property
    def prompt_stability(self) -> bool:
        """Somebody waits for it: the application at `safe`, in causal order the next message of an
        origin to another group."""
        return self.causal or self.deliver == "safe"

    @property
    def causal_for_good(self) -> bool:
        """Through exclusions too: a relayed batch then promises that everything before it is
        stored."""
        return self.causal and self.deliver == "safe"
