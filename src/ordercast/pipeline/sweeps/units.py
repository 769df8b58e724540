"""Units of measures, from their names: every name of a measure says what it is made of."""

_BY_WORD = {
    "ms": "ms",
    "seconds": "s",
    "utilisation": "share",
    "share": "share",
    "chosen": "share",
    "depth": "hops",
    "hops": "hops",
    "height": "hops",
    "diameter": "hops",
    "messages": "messages",
    "transmissions": "messages",
    "load": "messages",
    "sent": "messages",
    "processed": "messages",
    "frames": "frames",
    "extra": "sites",
    "members": "sites",
}
_BY_NAME = {
    "messages_on_hops": "messages",
    "on_hops_start": "messages",
    "on_hops_ack": "messages",
    "on_hops_info": "messages",
    "frames_per_message": "frames",
    "member_depth_sd": "hops",
    "extra_share": "share",
}


def unit_of(measure: str) -> str:
    """The unit of a measure, which may stand behind a protocol and a slash; empty for plain
    counts."""
    name = measure.rpartition("/")[2]
    if name in _BY_NAME:
        return _BY_NAME[name]
    words = name.split("_")
    # A word for a unit of time comes after the word for what takes it.
    return next((unit for word, unit in _BY_WORD.items() if word in words), "")
