"""Runs that once found a bug, each with a sentence of what it was.

Written out as whole commands, so that they stay the same runs when schedules are drawn otherwise.
"""

REGRESSIONS = {
    "after a restart all that a relay held for a child was queued again at once, past the limit of"
    " the link": [
        """ordercast sim '{"sites":["a","b","c","d","e","f","g","h"],"groups":{"g0":["f","c","g"],
        "g1":["h","g","f","b"]},"rates":{"g0":8.0,"g1":8.0}}' --builder star --messages 78
        --rate 100.0 --payload 8 --deliver agreed --on-failure wait --durability os
        --network broadcast:T=200us --faults loss=0.1,reorder=0.01,crash=2,restart=2
        --most-events 500000 --limits window_messages=26,window_bytes=72,link_items=11,
        frame_items=6,frame_bytes=1737 --timing ack_delay=9000000,resend_after=120000000,
        resend_at_most=1000000000,repair_again=56000000,report_delay=18000000 --stability plain
        --seed 1893""",
        """ordercast sim '{"sites":["a","b","c"],"groups":{"g0":["a","b"]}}' --protocol centralized
        --messages 124 --rate 500.0 --batch 2 --on-failure wait
        --faults replay=0.2,oneway=3,crash=3,restart=3 --most-events 500000
        --limits window_messages=24,window_bytes=725,link_items=8,frame_items=5,frame_bytes=638
        --timing ack_delay=7000000,ack_every=1,resend_after=170000000,repair_again=41000000,
        report_delay=38000000 --causal --stability plain --seed 1367""",
    ],
    "a batch that its origin had placed itself and seen become final, kept behind an unstable one"
    " of another group, was counted as unstable for ever after a restart": [
        """ordercast sim '{"sites":["a","b","c","d"],"groups":{"g0":["b"],"g1":["c"]}}'
        --protocol centralized --messages 51 --rate 500.0 --payload 500 --on-failure wait
        --faults loss=0.3,duplicate=0.2,oneway=3,crash=4,restart=4 --most-events 500000
        --limits window_messages=35,window_bytes=1031,link_items=4,frame_items=6,frame_bytes=1050,
        checkpoint_batches=4 --timing ack_delay=8000000,ack_every=1,resend_after=126000000,
        resend_at_most=1000000000,repair_again=8000000,report_delay=29000000 --stability plain
        --seed 1136""",
    ],
    "placing a batch again after a restart folded the past, and took final batches out of the list"
    " that was being walked": [
        """ordercast sim '{"sites":["a","b","c","d"],"groups":{"g0":["a"]}}' --builder balanced
        --messages 10 --rate 100.0 --payload 500 --implicit 0.2 --on-failure wait --origins 3
        --network wan --wake 1ms --longest-sync 50ms --settle 120s
        --faults loss=0.1,duplicate=0.2,replay=0.1,partition=1,clog=3,crash=3,restart=3
        --most-events 30000 --limits window_messages=19,window_bytes=1832,link_items=6,
        frame_items=1,frame_bytes=1699,held_batches=4,checkpoint_batches=16
        --timing ack_delay=2000000,resend_after=199000000,repair_again=33000000,
        report_delay=28000000 --causal --stability plain --seed 114925""",
    ],
}
