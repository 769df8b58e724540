"""The live audit of a history that grows: docs/follow.md has the algorithm and its argument.

The judging itself is `ordercast.check.live`. Here are the ways in which rows come to it: the files
of a folder, read in this process, or a streaming query of Spark; and what is kept between them.
"""
