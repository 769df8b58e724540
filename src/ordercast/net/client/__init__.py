"""Programs that use a site without containing one: over a daemon's socket, or without asyncio.

Users and the command enter.
"""
