"""What all verbs share: finding the verb, parsing its options, errors and exit codes.

Exit codes: 0 good, 1 the check failed or work is incomplete, 2 the user's mistake, with one line
on standard error; 130 after Ctrl-C. With `--json` standard output holds JSON and nothing else.
"""

import argparse
import difflib
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ordercast.companion import CODE
from ordercast.model.errors import Error, reason
from ordercast.model.names import nearest
from ordercast.model.verb_options import Flag, Names, VerbOption, WholeNumber, Word
from ordercast.model.version import __version__

_SEPARATED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
STREAMS = ("node", "tail", "top")  # verbs that go on printing
GOOD, INCOMPLETE, MISTAKE, INTERRUPTED = 0, 1, 2, 130
MISSING = "the following arguments are required:"


class UsageError(Error):
    """The command line itself is wrong; the message says where to read on."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb lives in `ordercast.cli.<name>`."""

    name: str
    summary: str


def is_verb(name: str) -> bool:
    return name.isidentifier() and hasattr(_module(name), "DESCRIPTION")


def _module(name: str) -> object:
    try:
        return importlib.import_module(f"ordercast.cli.{name}")
    except ImportError:
        return None


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest right option."""

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(f"{message}; see '{self.prog} --help'")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        options = [name for name in self._option_string_actions if name.startswith("--")]
        for argument in argv:
            if argument == "--":
                break
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in options:
                self.error(f"there is no option {name!r}{_nearest_option(name, options)}")
        args, rest = self.parse_known_intermixed_args(argv)  # words may stand among options
        if rest:
            what = "there is no option" if rest[0].startswith("-") else "one argument too many:"
            self.error(f"{what} {rest[0]!r}")
        return args


def _nearest_option(name: str, options: Sequence[str]) -> str:
    """As `nearest`; the dashes, which all have, do not make two options alike."""
    words = {option.removeprefix("--"): option for option in options}
    close = difflib.get_close_matches(name.removeprefix("--"), words, n=1, cutoff=0.5)
    return f" (did you mean {words[close[0]]!r}?)" if close else ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Words whose metavar shows all of them are not shown twice."""

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == "+" and isinstance(action.metavar, str) and " " in action.metavar:
            return action.metavar
        return super()._format_args(action, default_metavar)


def run_verb(verbs: Sequence[Verb], argv: Sequence[str]) -> int:
    """Run the command line; every way out of it ends here with an exit code."""
    try:
        code = _dispatch(verbs, argv)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except Error as error:
        complain(str(error))
        return MISTAKE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has gone, e.g. `| head`
        _abandon_output()
        return INCOMPLETE
    except OSError as error:
        complain(f"cannot go on: {reason_and_file(error)}")
        _abandon_output()
        return INCOMPLETE


def _abandon_output() -> None:
    """Send nowhere what Python still holds, or it would try again, and complain, on its way out."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(verbs: Sequence[Verb], argv: Sequence[str]) -> int:
    name = argv[0] if argv else "--help"
    if name == "help" and len(argv) > 1:
        return _dispatch(verbs, [argv[1], "--help"])
    if name in ("-h", "--help", "help"):
        print(_help(verbs))
        return GOOD
    if name in ("-V", "--version", "version"):
        print(f"ordercast {__version__} ({CODE})")
        return GOOD
    known = {verb.name: verb for verb in verbs}
    if name not in known:
        kind = "option" if name.startswith("-") else "verb"
        candidates = ["--help", "--version"] if kind == "option" else list(known)
        hint = nearest(name, candidates)
        raise UsageError(f"there is no {kind} {name!r}{hint}; see 'ordercast --help'")
    parser, module = parser_of(name)
    try:
        args = parser.parse(argv[1:])
    except SystemExit:  # argparse leaves this way after --help
        return GOOD
    code: int = module.run(args)
    return code


def parser_of(name: str) -> tuple["_Parser", Any]:
    """The parser of a verb, and the verb's module."""
    module = importlib.import_module(f"ordercast.cli.{name}")
    parser = _Parser(
        prog=f"ordercast {name}",
        description=module.DESCRIPTION,
        epilog=module.EXAMPLE,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    what = "one JSON object per line" if name in STREAMS else "one JSON object"
    parser.add_argument("--json", action="store_true", help=f"print {what}, nothing else")
    module.arguments(parser)
    return parser, module


def _help(verbs: Sequence[Verb]) -> str:
    width = max(len(verb.name) for verb in verbs)
    lines = [
        "usage: ordercast VERB [options]",
        "",
        "Ordered, reliable multicast to overlapping groups.",
        "",
        "verbs:",
        *(f"  {verb.name:<{width}}  {verb.summary}" for verb in verbs),
        "",
        "'ordercast help VERB' tells more, with an example; --version prints the version.",
    ]
    return "\n".join(lines)


def complain(message: str) -> None:
    """The one line on standard error; characters that would break the line are escaped."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    print(f"ordercast: {line}", file=sys.stderr)


def print_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def one_of(*values: str) -> Callable[[str], str]:
    """An option's type: one of the values; the error names the nearest."""

    def check(text: str) -> str:
        if text not in values:
            close = difflib.get_close_matches(text, values, n=1, cutoff=0.5)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(values)}{hint}")
        return text

    return check


def without_separators(text: str) -> str:
    """`2,002` as `2002`; any other text as it is."""
    return text.replace(",", "") if _SEPARATED.fullmatch(text) else text


def whole_number(least: int) -> Callable[[str], int]:
    """An option's type: an integer from `least` on, with separators as it is printed or without."""

    def check(text: str) -> int:
        try:
            number = int(without_separators(text))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small ({least} or more)")
        return number

    return check


def add_options(
    parser: argparse.ArgumentParser, options: Iterable[VerbOption], *, at_once: bool
) -> None:
    """The options of a table as those of a command line. Words and lists are read `at_once`, or
    stay texts, since the verb checks all options together."""
    for option in options:
        notation = option.notation
        if isinstance(notation, Flag):
            parser.add_argument(
                option.flag, action="store_true", default=option.default, help=option.help
            )
            continue
        kind: Callable[[str], object] = str
        if isinstance(notation, WholeNumber):
            kind = whole_number(notation.least)
        elif at_once and isinstance(notation, Word):
            kind = one_of(*notation.known)
        elif at_once and isinstance(notation, Names):
            kind = _names
        parser.add_argument(
            option.flag,
            metavar=option.metavar,
            type=kind,
            default=option.default,
            help=option.help,
        )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name between its commas")
    return names


def read_text(path: str) -> str:
    """A file as text, or standard input for `-`; what can go wrong is the user's to mend."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {reason(error)}") from None
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from None
        raise UsageError(f"{path}: {error}") from None  # e.g. a null character in the name


def reason_and_file(error: OSError) -> str:
    """`FILE: permission denied`, as far as the system names the file."""
    files = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*files, reason(error)])
