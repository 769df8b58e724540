"""The version of the package: in histories, in reports, on the command line."""

__version__ = "0.1.0"
