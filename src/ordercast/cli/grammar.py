"""What the verbs take, read from their parsers: for completion and the manual page."""

import argparse
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.cli.command import parser_of

_ACTIONS = re.compile(r"^  ([a-z]+)  +\S", re.MULTILINE)  # of a verb whose description lists them


@dataclass(frozen=True, slots=True)
class VerbGrammar:
    summary: str
    parser: argparse.ArgumentParser
    actions: tuple[str, ...]  # the words that come first, if there are such
    options: tuple[tuple[str, str, str], ...]  # each with its help, and the name of its value


def grammar() -> Mapping[str, VerbGrammar]:
    """The grammar of every verb, in the order of the help."""
    verbs = importlib.import_module("ordercast.cli").VERBS
    return {verb.name: _of(verb.name, verb.summary) for verb in verbs}


def _value(action: argparse.Action) -> str:
    return "" if action.nargs == 0 else str(action.metavar or action.dest.upper())


def _of(name: str, summary: str) -> VerbGrammar:
    parser, module = parser_of(name)
    options = tuple(
        (option, (action.help or "").replace("%%", "%"), _value(action))
        for action in parser._actions
        for option in action.option_strings
    )
    takes_actions = any(
        isinstance(action.metavar, str) and action.metavar.startswith("ACTION")
        for action in parser._actions
    )
    actions = tuple(_ACTIONS.findall(module.DESCRIPTION)) if takes_actions else ()
    return VerbGrammar(summary, parser, actions, options)
