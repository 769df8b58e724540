"""A site's memory: its records on disk or in memory, with the thread that writes them and the
readers.

Entered by `site`, which writes, and by `cli`, `daemon`, `export` and `pipeline`, which read and
copy. The room knows nothing of links; `cluster` lies below.
"""
