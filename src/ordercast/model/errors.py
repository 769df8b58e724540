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


class FrameError(Error):
    """Bytes that are not a frame of ours: the one error of the codec."""
