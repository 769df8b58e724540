"""The live audit of a history that grows: docs/follow.md has the algorithm and its argument.

`ordercast.check.live` judges. Here is how rows come to it, as files that this process reads or as a
streaming query of Spark, and what is kept between batches. Entered by `cli`, `pipeline` and users:
Spark finds the format of lakes by name.
"""
