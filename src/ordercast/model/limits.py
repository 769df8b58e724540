"""Hard limits of what travels: a frame above them is refused before anything else sees it.

They bound what a peer can make a site hold, whatever the cluster file says; the limits of the
options lie below them. Both ends must agree on them, so they belong to the version of the wire
format. A name has at most 64 characters by the rule for names itself. Any one record of the voters'
log that keeps the limits fits into a frame.
"""

from typing import Final

FRAME_BYTES: Final = 16 * 1024 * 1024  # header included
BODY_BYTES: Final = 8 * 1024 * 1024  # the packed payloads of one batch, with headers and addressees
ENVELOPE_BYTES: Final = 32  # of a body, besides: its form, and the time of sending
MESSAGE_HEADERS: Final = 32  # of one message
HEADER_CHARACTERS: Final = 64  # of a header's name
HEADERS_BYTES: Final = 4_096  # the names and values of one message's headers
ITEMS: Final = 1_024  # of one frame
BATCH_MESSAGES: Final = 65_536
KEY_PATH: Final = 8_192  # integers: a placing site at depth 4,096 with no counter at zero
DEEPEST: Final = KEY_PATH // 2  # of a tree: deeper sites have keys that do not fit
VECTOR_ENTRIES: Final = 16_384  # groups in a causal past, a report, a notice of what is settled
PAST: Final = 8_192  # groups in the causal past that an origin tells; its primary adds as many
PAST_NAMES: Final = 32_768  # sites in the lists of such a past; the primary adds as many
MEMBERS: Final = 16_384  # sites of an implicit group, or of all groups that one change adds
RECORDS: Final = 1_024  # of the voters' log, changes under way, or edits, in one frame
LASTS: Final = 65_536  # streams in one record, or in one frame of a report
PART: Final = 16_384  # streams in a part of a report, or of the end of a change
PART_NAMES: Final = 131_072  # sites in the lists of a part
PARTS: Final = 64  # of one report, or of one end
STREAM_BYTES: Final = 6 * 1024 * 1024  # of a layout, for the streams of all sites
LEAST_STREAMS: Final = 256  # that one site may send in, however many sites there are
PLACES: Final = 262_144  # parents and primaries that a record changes
VOTERS: Final = 64
TICKETS: Final = 4_096  # of producers: one for each producer and group that it sends to
IDS: Final = 2_048  # of their senders' own, that a group remembers
ID_WINDOWS: Final = 16  # groups that remember ids
CLIENTS: Final = 1_024  # that a group remembers
CLIENT_WINDOWS: Final = 32  # groups that remember clients
LIST_WINDOWS: Final = 32  # lists of sites that do
ID_CHARACTERS: Final = 128  # of an id that a sender has chosen
READER_GROUPS: Final = 1_000  # of one named reader
STARTS: Final = 64  # of a site on its store, the last ones
FOLDED_BYTES: Final = 15 * 1024 * 1024  # a whole layout
PIECE_BYTES: Final = 256 * 1024  # of an application's snapshot
PIPE_BYTES: Final = 32 * 1024  # of a pipe, in one frame
PIPE_WINDOW: Final = 256 * 1024  # of a pipe, each way, that the other end has not made room for yet
TEXT: Final = 256  # characters of a change's name, an address, a reason
RIDERS: Final = 16  # items of CONTROL in a frame of another lane
ACKS: Final = 3  # one for each lane
PRODUCER_NUMBERS: Final = 2**50 - 1  # the largest number of a message of a producer,
GENERATIONS: Final = 2**12 - 1  # and the last generation that a producer has
LARGEST_NUMBER: Final = 2**62  # a number plus a count stays within the store's 64 bits
NAMES_KEPT: Final = 16_384  # names found right and remembered; with more, the set starts anew
