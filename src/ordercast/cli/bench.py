"""`ordercast bench`: how fast a group of sites is on this machine."""

import argparse
from dataclasses import fields
from typing import Any

from ordercast.cli.command import GOOD, INCOMPLETE, one_of, print_json, whole_number
from ordercast.cli.progress_line import ProgressLine
from ordercast.core.order.registry import PROTOCOLS, protocol_named
from ordercast.model.errors import ConfigError
from ordercast.model.options import DURABILITIES, LEVELS

DESCRIPTION = """\
Run one group of sites as real processes on the loopback, each sending and each
delivering everything, and tell the messages per second that every member was
given, how long they took, and the processor time of all members together."""

EXAMPLE = """\
example:
  ordercast bench --members 3 --payload 100 --seconds 10 --api batch
  ordercast bench --rate 1000 --deliver safe --durability sync --tls"""


def _protocol(text: str) -> str:
    if not text.startswith("hybrid:"):
        return one_of(*PROTOCOLS)(text)
    try:
        return protocol_named(text).name
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--members", metavar="N", type=whole_number(2), default=3, help="sites (default: 3)")
    add("--payload", metavar="BYTES", type=whole_number(8), default=100, help="(default: 100)")
    add("--seconds", metavar="S", type=_above_zero, default=10.0, help="(default: 10)")
    add(
        "--protocol", metavar="NAME", type=_protocol, default="propagation",
        help=f"{', '.join(PROTOCOLS)}, hybrid:N or hybrid:N:M (default: propagation)",
    )  # fmt: skip
    add(
        "--deliver", metavar="LEVEL", type=one_of(*LEVELS), default="agreed",
        help="agreed or safe (default: agreed)",
    )  # fmt: skip
    add(
        "--durability", metavar="KIND", type=one_of(*DURABILITIES), default="memory",
        help="sync, os or memory (default: memory)",
    )  # fmt: skip
    add("--tls", action="store_true", help="encrypt, with certificates made for the run")
    add(
        "--api", metavar="FACE", type=one_of("message", "batch"), default="message",
        help="send and read message by message, or by the batch (default: message)",
    )  # fmt: skip
    add(
        "--rate", metavar="R", type=_above_zero,
        help="messages per second of all members together (default: as many as go)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from ordercast.net.bench.run import BenchSpec, run_bench

    spec = BenchSpec(**{field.name: getattr(args, field.name) for field in fields(BenchSpec)})
    with ProgressLine(0.0) as lines:
        found = run_bench(spec, lines.show)
    if args.json:
        print_json(found)
    else:
        print(as_text(found))
    return GOOD if found["same_order"] else INCOMPLETE


def as_text(found: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"{found['members']} members, {found['payload']} B, {found['protocol']},"
            f" {found['deliver']}, {found['durability']}, {'TLS' if found['tls'] else 'no TLS'},"
            f" by the {found['api']}",
            f"delivered    {found['msgs_per_s']:,} messages/s by every member",
            f"latency      {found['p50_ms']} ms median, {found['p99_ms']} ms p99",
            f"processor    {found['cpu_us_per_msg']} µs per message, all members together",
            f"order        {'the same everywhere' if found['same_order'] else 'NOT THE SAME'}",
        ]
    )


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value
