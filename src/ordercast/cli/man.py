"""`ordercast man`: the manual page of the command, made from what its verbs take."""

import argparse
import re
from collections.abc import Mapping

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.grammar import VerbGrammar, grammar
from ordercast.model.version import __version__

DESCRIPTION = """\
Print the manual page of ordercast, in the form that 'man' reads: every verb with its
description, its options and its examples."""

EXAMPLE = """\
example:
  ordercast man > ~/.local/share/man/man1/ordercast.1
  ordercast man | man -l -"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verb takes nothing but --json."""


def run(args: argparse.Namespace) -> int:
    text = page(grammar())
    if args.json:
        print_json({"page": text})
    else:
        print(text, end="")
    return GOOD


def page(verbs: Mapping[str, VerbGrammar]) -> str:
    lines = [
        f'.TH ORDERCAST 1 "" "ordercast {__version__}"',
        ".SH NAME",
        r"ordercast \- ordered, reliable multicast to overlapping groups",
        ".SH SYNOPSIS",
        r"\fBordercast\fR \fIVERB\fR [\fIoptions\fR]",
        ".SH DESCRIPTION",
        "Plan, simulate, run and judge ordered multicast. Each verb has a section below;",
        r"\&'ordercast help \fIVERB\fR' prints the same.",
        ".SH VERBS",
    ]
    for name, verb in verbs.items():
        lines += [".TP", rf"\fB{name}\fR", _text(verb.summary)]
    for name, verb in verbs.items():
        lines += _section(name, verb)
    lines += [
        ".SH EXIT STATUS",
        *(".TP\n0\ngood", ".TP\n1\nthe check failed, or work is incomplete"),
        *(".TP\n2\nthe user's mistake, with one line on standard error", ".TP\n130\nafter Ctrl-C"),
        ".SH SEE ALSO",
        r"\&'ordercast docs' lists the pages of the documentation.",
    ]
    return "\n".join(lines) + "\n"


def _section(name: str, verb: VerbGrammar) -> list[str]:
    parser = verb.parser
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    lines = [f'.SH "{name.upper()}"', _text(usage), ".PP", ".nf", _text(parser.description or "")]
    lines += [".fi"]
    for action in parser._actions:
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        metavar = f" {action.metavar}" if action.option_strings and action.metavar else ""
        lines += [".TP", rf"\fB{_text(names + metavar)}\fR", _text(_help(action))]
    return [*lines, ".PP", ".nf", _text(parser.epilog or ""), ".fi"]


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _text(text: str) -> str:
    """Text that groff prints as it is: no line of it is a request, no character an escape."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)
