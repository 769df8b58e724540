"""`ordercast bench`: real processes under load, timed. It uses public faces, as a user would.

Entered by `cli`.
"""
