"""Integrity: at most once per site, only what was sent, byte for byte, only to members."""

from collections.abc import Iterator

from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain, row_witness
from ordercast.check.view import SiteView, View
from ordercast.history.rows import Delivered

REPEATED = "repeated"
NEVER_SENT = "never sent"
NOT_A_MEMBER = "not a member"
OTHER_DIGEST = "another digest"


def check_integrity(view: View) -> Verdict:
    """Bad rows, each once whatever is wrong with it, plus messages that appear in two epochs."""
    count = 0
    witness: Witness | None = None
    for number, site in enumerate(view.sites):
        for row, message, repeated in bad_rows(view, number, site):
            count += 1
            if witness is None:
                reasons = _reasons(view, number, row, message, repeated)
                witness = {**row_witness(row), "reasons": reasons}
    split = in_two_epochs(view)
    if witness is None and split:
        message = min(split, key=view.messages.__getitem__)
        witness = {"message": plain(view.messages[message]), "epochs": sorted(split[message])}
    return Verdict("integrity", count + len(split), witness)


def bad_rows(
    view: View, number: SiteNumber, site: SiteView
) -> Iterator[tuple[Delivered, MessageNumber, bool]]:
    """The bad rows of a site in order, and whether each repeats a message."""
    seen = view.delivered_before(site)
    for row, message in zip(site.rows, site.numbers, strict=True):
        if message not in seen and _is_sound(view, number, row, message):
            seen.add(message)
            continue
        yield row, message, message in seen
        seen.add(message)


def _is_sound(view: View, site: SiteNumber, row: Delivered, message: MessageNumber) -> bool:
    sent = view.sent[message]
    return (
        (sent is not None or _sent_before(view, message))
        and site in view.members.get((row.epoch, row.group_name), ())
        and (
            sent is None
            or row.digest is None
            or row.digest == sent.digest
            or _same_digest(view, row, message)
        )
    )


def _sent_before(view: View, message: MessageNumber) -> bool:
    return message in view.late and view.before.was_sent(view.messages[message])


def _same_digest(view: View, row: Delivered, message: MessageNumber) -> bool:
    """Whether the digest is one the message was sent with, or there is none to compare with."""
    sent = view.sent[message]
    if sent is None:
        return True
    digests = view.other_digests.get(message, {sent.digest})
    return row.digest is None or None in digests or row.digest in digests


def _reasons(
    view: View, site: SiteNumber, row: Delivered, message: MessageNumber, repeated: bool
) -> list[str]:
    found = {
        REPEATED: repeated,
        NEVER_SENT: view.sent[message] is None and not _sent_before(view, message),
        NOT_A_MEMBER: site not in view.members.get((row.epoch, row.group_name), ()),
        OTHER_DIGEST: not _same_digest(view, row, message),
    }
    return [reason for reason, holds in found.items() if holds]


def in_two_epochs(view: View) -> dict[MessageNumber, set[int]]:
    """Messages whose rows name two epochs.

    Unagreed rows are left out: their messages may rightly be sent again in the next epoch.
    """
    first: list[int | None] = [None] * len(view.messages)
    for message in sorted(view.late):
        first[message] = view.before.epoch_of(view.messages[message])
    split: dict[MessageNumber, set[int]] = {}
    for site in view.sites:
        for row, message in zip(site.rows, site.numbers, strict=True):
            epoch = row.epoch
            known = first[message]
            if known == epoch or epoch in site.unagreed_epochs:
                continue
            if known is None:
                first[message] = epoch
            else:
                split.setdefault(message, {known}).add(epoch)
    counted = view.before.split
    return {n: epochs for n, epochs in split.items() if view.messages[n] not in counted}
