"""The protocol objects. Pure: no I/O, clock, randomness, threads, tasks or logging.

`site.Site` composes them for one site: link → causal hold → ordering → ordered log → safe gate.
Drivers (simulator, network) call it with integer nanoseconds and frames and drain its outbox.
"""
