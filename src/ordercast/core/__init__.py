"""The protocol objects. Pure: no I/O, clock, randomness, threads, tasks or logging.

`Engine` composes them for one site and one epoch: link → causal hold → ordering → ordered log →
safe gate. `Member` is a site through all its epochs. Drivers (simulator, network) call a member
with integer nanoseconds and frames, and drain its outbox.
"""
