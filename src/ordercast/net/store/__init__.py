"""A site's memory: its records on disk or in memory, who writes them and who reads them.

`site` writes through it, `export` reads the files. It knows nothing of links; `cluster` lies below.
"""
