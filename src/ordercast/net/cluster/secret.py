"""The secret of a cluster without certificates: a file that its sites prove to each other.

A loopback address is open to every user of the machine, so a site that listens there asks for a
proof. The secret is `secret` in the directory that the cluster file says (`.ordercast/NAME` beside
it by default), or where `[cluster] secret` says: the same for all sites, whatever `--dir` each has.
The first process that needs it makes it; of several at once, one wins and the others read its file.
It is read again when it has changed.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from ordercast.model.errors import ConfigError, reason
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import is_private, make_directory, read_own
from ordercast.whole_files import OURS, write_file

SECRET_BYTES: Final = 32


class ClusterSecret:
    """The secret in a file. `make`: write a new one if there is none."""

    def __init__(self, path: Path, *, make: bool) -> None:
        self.path = path
        if make:
            _make(path)
        self._stamp = _stamp(path)
        self._value = _read(path)

    def now(self) -> bytes:
        """The secret as it is in the file; the last good one while the file is not."""
        stamp = _stamp(self.path)
        if stamp is not None and stamp != self._stamp:
            try:
                self._value = _read(self.path)
            except ConfigError:
                return self._value
            self._stamp = stamp
        return self._value


def secret_of(cluster: Cluster) -> ClusterSecret | None:
    """What links of the cluster prove; None where certificates do, or nobody asks. It is made for
    sites that are all on this machine."""
    if cluster.secret is None:
        return None
    return ClusterSecret(cluster.secret, make=not cluster.insecure)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> bytes:
    try:
        text = read_own(path).decode("ascii").strip()
        value = bytes.fromhex(text)
        private = is_private(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: is missing: make the secret once, 64 hexadecimal digits (openssl rand"
            " -hex 32) with mode 600, and give it to all sites"
        ) from None
    except ValueError:
        value, private = b"", True
    if len(value) != SECRET_BYTES:
        raise ConfigError(
            f"{path}: is no secret of a cluster ({2 * SECRET_BYTES} hexadecimal digits)"
        )
    if not private:
        raise ConfigError(f"{path}: other users can read the secret (chmod 600, or make a new one)")
    return value


def _make(path: Path) -> None:
    """Never half written: a whole file gets the name, if it is free."""
    elsewhere = "'secret' under [cluster] names another file for the secret of the cluster"
    try:
        make_directory(path.parent)
    except ConfigError as error:
        raise ConfigError(f"{error}; {elsewhere}") from None
    if os.path.lexists(path):
        return
    secret = f"{secrets.token_hex(SECRET_BYTES)}\n".encode("ascii")
    try:
        with suppress(FileExistsError):  # another process was first
            write_file(path, secret, mode=OURS, new=True)
    except OSError as error:
        why = reason(error)
        raise ConfigError(f"{path}: cannot be written ({why}); {elsewhere}") from None
