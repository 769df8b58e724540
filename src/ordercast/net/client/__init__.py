"""Programs that use a site without containing one: through a daemon, here or elsewhere.

Users and the command enter.
"""
