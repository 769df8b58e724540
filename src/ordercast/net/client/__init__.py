"""Programs that use a site without containing one: through a daemon, here or elsewhere.

Entered by `cli`, `pipeline`, `web` and users.
"""
