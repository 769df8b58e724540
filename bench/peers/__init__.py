"""Other systems under the load of `ordercast bench`: `python -m bench.peers`, one file for each.

Every system has the same members, payloads, clock and hash (`net/bench`): each member sends, and
all members deliver all messages in one order. What it promises beyond that is in its `promise`.
"""
