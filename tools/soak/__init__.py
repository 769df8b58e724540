"""The soak: any number of seeded cases of a campaign, on all cores, resumable, each replayable.

`campaign` says what a campaign is and finds them, `record` keeps what is done, `workers` run the
cases in processes, `__main__` is the command.
"""
