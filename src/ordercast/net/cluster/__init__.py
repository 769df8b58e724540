"""What a cluster is on this machine: its file, the paths and sockets of its sites, its processes.

The lowest room of the runtime: it imports no other room of `net`, and every other one may enter.
"""
