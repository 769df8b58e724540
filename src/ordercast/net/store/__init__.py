"""A site's memory: its records on disk or in memory, with the thread that writes them and the
readers.

`site` writes through it, `export` reads the files. It knows nothing of links; `cluster` lies below.
"""
