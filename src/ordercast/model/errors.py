"""The errors a user can meet. Each message is one line that names the file, field and value."""


class Error(Exception):
    """Anything ordercast refuses or cannot do; the message is fit to be shown to a user."""


class ConfigError(Error):
    """A file, option or name that the user can put right."""


class UnknownGroup(Error):
    """A send to a group that the cluster does not have."""


class CrossDomain(Error):
    """A send to sites that no one tree connects."""


class TooLarge(Error):
    """A message above the limit."""


class WindowFull(Error):
    """As much as allowed is accepted and not yet stable; wait for receipts."""


class Forgotten(Error):
    """A position that is no longer kept: its messages cannot be read again."""


class Expired(Error):
    """A message with an id that came too late: it is not delivered from now on, and whether it was
    delivered before is not known any more."""


class Fenced(Expired):
    """A message of a producer whose name a later generation uses now: it is not delivered from now
    on, and perhaps it was before."""


class TurnLost(Error):
    """A follower of a named reader that has no turn: others have gone on, or it was reset."""


class NotInMajority(Error):
    """The voters that answer are too few to decide; what needs a decision waits."""


class PeerRefused(Error):
    """A site that is not who it claims to be, or that is of another cluster or structure."""


class NotGranted(Error):
    """A request that the subject of a client's session has no grant for."""


class StoreCorrupt(Error):
    """A store with a committed batch that cannot be trusted; the site must not run on it."""


class FrameError(Error):
    """Bytes that are not a frame of ours: the one error of the codec."""


class PeerMistake(Error):
    """A frame that keeps the rules of the wire and contradicts what this site knows of its sender.
    It is raised before anything has changed."""


def reason(error: OSError) -> str:
    """What the system says, as the end of one of our lines."""
    return (error.strerror or str(error) or "no answer in time").lower()
