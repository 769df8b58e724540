"""How long work will still take, for lines of progress."""

_SURE_S = 2.0  # before that nothing is promised


def time_left(took_s: float, done: float, total: float) -> str:
    """`, about 40 s left`; nothing at the beginning and at the end."""
    if took_s < _SURE_S or not 0 < done < total:
        return ""
    left_s = took_s * (total - done) / done
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if left_s >= 2 * size:
            return f", about {left_s / size:.0f} {unit} left"
    return f", about {max(left_s, 1):.0f} s left"
