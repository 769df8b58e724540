"""SQLite's write-ahead log after a crash: a torn end is recovered, a damaged middle is refused.

SQLite reads its log up to the first frame whose checksum fails, and takes that frame for the end.
This is right for the transaction that was being written. But if a whole transaction follows, the
damaged one was committed and acknowledged: it must not be dropped in silence. (The log is emptied
at each start and after each failed commit, so nothing else can follow.)

The format is that of SQLite's "WAL-mode File Format": a header of 32 bytes, then frames, each of 24
bytes and a page. Each checksum covers everything before it. The salts tell the frames of this log
from older ones.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from ordercast.model.errors import StoreCorrupt
from ordercast.net.store.file import PAGE_BYTES

_MAGIC = (0x377F0682, 0x377F0683)  # checksums of little-endian words, and of big-endian ones
_HEADER, _FRAME = 32, 24
_MASK = 0xFFFFFFFF

Sums: TypeAlias = tuple[int, int]


class _Log(NamedTuple):
    file: BinaryIO
    size: int  # bytes
    words: str  # byte order of the words that the checksums add up
    page: int  # bytes
    salts: Sums
    sums: Sums | None  # checksums of the header; None: it is damaged

    def frames(self) -> int:
        return (self.size - _HEADER) // (self.page + _FRAME)

    def frame(self, n: int) -> tuple[int, Sums, Sums]:
        """Of a frame: the pages of the file after its commit (0: it commits nothing), the salts,
        the checksums."""
        self._seek(n)
        _, commit, salt1, salt2, sum1, sum2 = struct.unpack(">6I", self.file.read(_FRAME))
        return commit, (salt1, salt2), (sum1, sum2)

    def sums_after(self, n: int, before: Sums) -> Sums:
        self._seek(n)
        data = self.file.read(_FRAME + self.page)
        return add_up(data[_FRAME:], self.words, add_up(data[:8], self.words, before))

    def _seek(self, n: int) -> None:
        self.file.seek(_HEADER + n * (self.page + _FRAME))


def require_whole(path: Path) -> None:
    """Raise StoreCorrupt if a transaction in the middle of the store's log is damaged. A site may
    run: a frame that was being written at the first look is whole at the next one."""
    wal = path.with_name(f"{path.name}-wal")
    what, before = _look(wal), ""
    while what and what != before:
        what, before = _look(wal), what
    if what:
        raise StoreCorrupt(
            f"{wal}: {what} is damaged, and committed batches follow it; keep both files, and"
            " put back intact copies of them or let the site return as a new one"
            " ('ordercast docs store')"
        )


def _look(wal: Path) -> str:
    """What is damaged in the log as it is now. Empty: nothing."""
    try:
        file = wal.open("rb")
    except FileNotFoundError:
        return ""
    with file:  # read frame by frame: a log may be larger than the memory
        return _damaged_middle(file)


def lengthen(path: Path, piece: int, upto: int) -> bool:
    """Write zeros behind the end of the store's log, at most `piece` bytes, until the file has
    `upto`. Returns whether nothing is left to do. Only the thread that commits may call this.

    A commit within the file's length is durable sooner than one that makes the file longer: the
    file system need not write where the file ends. SQLite keeps the file's length when it begins
    the log anew, and takes zeros for the end of the log: they are no frame with its salts."""
    try:
        with path.with_name(f"{path.name}-wal").open("r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size < upto:
                file.write(bytes(min(piece, upto - size)))
                os.fsync(file.fileno())
            return size + piece >= upto
    except OSError:  # no room on the disk: commits make the file longer, if they can
        return True


def _damaged_middle(file: BinaryIO) -> str:
    """What is damaged although a transaction follows it. Empty: nothing."""
    log = _parse(file)
    bad = None if log is None else _first_bad(log)
    if log is None or bad is None or not _is_followed(log, bad):
        return ""
    return f"frame {bad + 1}" if log.sums is not None else "its header"


def _parse(file: BinaryIO) -> _Log | None:
    """The header. None: there is no log. The header is durable before any frame, so it is never
    torn."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    data = file.read(_HEADER + _FRAME)
    if len(data) < _HEADER + _FRAME:
        return None
    magic, _, page, _, salt1, salt2, sum1, sum2 = struct.unpack_from(">8I", data)
    words = ">" if magic & 1 else "<"
    if magic in _MAGIC and add_up(data[:24], words, (0, 0)) == (sum1, sum2):
        return _Log(file, size, words, page, (salt1, salt2), (sum1, sum2))
    salt1, salt2 = struct.unpack_from(">2I", data, _HEADER + 8)
    return _Log(file, size, words, PAGE_BYTES, (salt1, salt2), None)


def _first_bad(log: _Log) -> int | None:
    sums = log.sums
    if sums is None:
        return 0
    for n in range(log.frames()):
        _, salts, written = log.frame(n)
        if salts != log.salts:
            return n
        sums = log.sums_after(n, sums)
        if sums != written:
            return n
    return None


def _is_followed(log: _Log, bad: int) -> bool:
    """Whether a transaction ends at or after `bad`, and another one has begun after it."""
    most = max((log.frame(n)[0] for n in range(bad)), default=0) + log.frames()
    ended = False
    for n in range(bad, log.frames()):
        commit, salts, _ = log.frame(n)
        if salts != log.salts:
            continue
        if ended:
            return True
        # A commit tells how many pages the file has then: it grows by no more than the log has.
        ended = 0 < commit <= most or (n > bad and commit > 0)
    return False


def add_up(data: bytes, words: str, before: Sums) -> Sums:
    """SQLite's checksum of a whole number of pairs of words."""
    first, second = before
    values = struct.unpack(f"{words}{len(data) // 4}I", data)
    for a, b in zip(values[::2], values[1::2], strict=True):
        first = (first + a + second) & _MASK
        second = (second + b + first) & _MASK
    return first, second
