"""Links between sites: TCP connections with or without TLS, and datagrams to many.

Frames go in and come out; nothing here knows what they mean. Entered by `site`, which runs the
links, and by `admin`, `cli`, `client`, `daemon` and `net`, which use its TLS and its addresses.
"""
