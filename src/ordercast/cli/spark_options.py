"""The options of every verb that works on Spark: which cluster, and with which settings."""

import argparse
from typing import Any


def spark_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", "--remote", metavar="URL",
        help="the Spark master, or sc://HOST of a Spark Connect server (default: local[*])",
    )  # fmt: skip
    parser.add_argument("--memory", metavar="SIZE", help="of the driver's JVM (default: 2g)")
    parser.add_argument(
        "--conf", metavar="K=V", nargs="+", action="extend", default=[],
        help="settings of Spark, which win over ours",
    )  # fmt: skip
    parser.add_argument("--packages", metavar="NAMES", help="Maven packages for the JVM")
    parser.add_argument("--py-files", metavar="FILES", help="Python files for the executors")


def session_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `open_session` is to be told of them."""
    from ordercast.pipeline.session import settings_of

    conf = settings_of(args.conf, args.packages, args.py_files)
    return {"master": args.master, "memory": args.memory, "conf": conf}
