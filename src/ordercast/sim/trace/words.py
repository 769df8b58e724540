"""What a frame says, in a few words, and which messages it carries."""

from collections.abc import Iterator
from typing import Any

from ordercast.core.order.interface import CLOSING
from ordercast.model.messages import Batch, MessageId
from ordercast.wire.epochs import ChangeRequest, Fed, Feed, InEpoch
from ordercast.wire.frames import Data
from ordercast.wire.items import LaneItem
from ordercast.wire.voting import Append

_NAMED = 3  # items of a frame that are named; the others are counted


def frame_words(frame: Any) -> str:
    """Empty for acknowledgements, signs of life and repeats."""
    match frame:
        case InEpoch(_, Data() as data):
            return _listed([_item(item) for item in _items(data)])
        case Append() if frame.entries:
            return f"Append({_listed([type(entry.record).__name__ for entry in frame.entries])})"
        case Feed() if frame.records:
            return f"Feed({_listed([type(entry.record).__name__ for entry in frame.records])})"
        case Fed() if frame.closed:
            return "Fed(closed)"
        case ChangeRequest():
            return "ChangeRequest"
    return ""


def has_items(frame: Any) -> bool:
    return type(frame) is InEpoch and type(frame.frame) is Data


def carried_messages(frame: Any) -> Iterator[MessageId]:
    for batch in _batches(frame):
        if batch.incarnation != CLOSING:
            for seq in range(batch.seq, batch.seq + batch.count):
                yield MessageId(batch.origin, batch.incarnation, batch.group, seq)


def message_words(message: MessageId) -> str:
    """Short: the origin, the group and the seq; the incarnation only if it is not the first."""
    origin, incarnation, group, seq = message
    again = "" if incarnation == 1 else f"'{incarnation}"
    return f"{origin}{again} {group} {seq}"


def _batches(frame: Any) -> Iterator[Batch]:
    if isinstance(frame, InEpoch):
        frame = frame.frame
    if isinstance(frame, Data):
        for item in _items(frame):
            batch = item.carried()
            if batch is not None:
                yield batch


def _items(data: Data) -> tuple[LaneItem, ...]:
    return (*data.items, *(data.rider.items if data.rider else ()))


def _item(item: LaneItem) -> str:
    batch = item.carried()
    if batch is None:
        return type(item).__name__
    if batch.incarnation == CLOSING:
        return f"{type(item).__name__}(Close)"
    first = message_words(MessageId(batch.origin, batch.incarnation, batch.group, batch.seq))
    more = f"…{batch.seq + batch.count - 1}" if batch.count > 1 else ""
    return f"{type(item).__name__}({first}{more})"


def _listed(words: list[str]) -> str:
    unlike = list(dict.fromkeys(words))
    more = f" and {len(unlike) - _NAMED} more" if len(unlike) > _NAMED else ""
    return ", ".join(unlike[:_NAMED]) + more
