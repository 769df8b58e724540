"""The options of every verb that works on Spark: which cluster, and with which settings."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import UsageError, one_of
from ordercast.model.verb_options import flag_of

if TYPE_CHECKING:
    from ordercast.pipeline.session import SparkSession

ENGINES = ("spark", "processes")
SPARK_OPTIONS = ("master", "memory", "conf", "packages", "py_files")


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


def engine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", metavar="NAME", type=one_of(*ENGINES), default=ENGINES[0],
        help="spark (default), or processes: of this machine, without Java; the same rows",
    )  # fmt: skip


@contextmanager
def engine(args: argparse.Namespace, app: str, *, brief: bool) -> "Iterator[SparkSession | None]":
    """A session for runs; None where processes do them."""
    if args.engine == "spark":
        from ordercast.pipeline.session import open_session

        with open_session(app, brief=brief, **session_options(args)) as spark:
            yield spark
        return
    from ordercast.pipeline.interrupts import interruptible
    from ordercast.pipeline.session import require_tables

    refuse_spark_options(args, SPARK_OPTIONS)
    require_tables()
    with interruptible():
        yield None


def refuse_spark_options(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(args, name):
            raise UsageError(f"{flag_of(name)} needs --engine spark")


def session_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `open_session` is to be told of them."""
    from ordercast.pipeline.session import settings_of

    conf = settings_of(args.conf, args.packages, args.py_files)
    return {"master": args.master, "memory": args.memory, "conf": conf}
