"""The web page: a server for one browser or a few, and pictures that other rooms have no need of.

The extra `web` brings Starlette and uvicorn. Only the modules that serve import them. Nothing here
loads anything from another host.
"""
