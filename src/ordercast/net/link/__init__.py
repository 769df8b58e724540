"""Links between sites: TCP connections with or without TLS, and datagrams to many.

Frames go in and come out; nothing here knows what they mean. Only `site` enters this room, the
export and the daemon's faces never do; `cluster` lies below it.
"""
