"""Links between sites: TCP connections with or without TLS, and datagrams to many.

Frames go in and come out; nothing here knows what they mean. Only `site` and the local cluster
enter this room; `cluster` lies below it.
"""
