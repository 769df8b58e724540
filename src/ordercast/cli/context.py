"""`ordercast context add|use|list|remove`: where verbs go when no cluster file is named."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.cli.runtime import table_lines
from ordercast.model.names import nearest, require_name
from ordercast.net.cluster.contexts import FILES

if TYPE_CHECKING:
    from ordercast.net.cluster.contexts import Context, Contexts

ACTIONS = {"add": 1, "use": 1, "remove": 1, "list": 0}

DESCRIPTION = """\
Name places where verbs go: addresses of daemons, and the certificate to show there.

  add     NAME --address tls://HOST:PORT --cert FILE   or put another in its place; the
                                                       first one is the current one
  use     NAME                                         the current one from now on
  remove  NAME
  list

A verb goes to the CLUSTER file or the --context of its command line; else to the
context that ORDERCAST_CONTEXT names; else to the file that ORDERCAST_CLUSTER names
(with --dir from ORDERCAST_DIR); else to the current context.
The contexts are in $XDG_CONFIG_HOME/ordercast/contexts.toml."""

EXAMPLE = """\
example:
  ordercast context add shop --address tls://db1:7201 --address tls://db2:7201 \\
      --cert billing.pem
  ordercast status
  ordercast send alpha 'hello, all' --context shop"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="ACTION [NAME]", help="see above")
    parser.add_argument(
        "--address", metavar="ADDRESS", action="append", help="add: of a daemon; may be repeated"
    )
    parser.add_argument("--site", metavar="SITE", help="add: of all the addresses, if it is one")
    parser.add_argument("--cert", metavar="FILE", help="add: the certificate")
    parser.add_argument("--key", metavar="FILE", help="add: its key (default: beside it)")
    parser.add_argument("--ca", metavar="FILE", help="add: the authority (default: beside it)")
    parser.add_argument("--secret", metavar="FILE", help="add: the cluster's secret, for tcp://")


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.contexts import read_contexts, write_contexts

    action, *names = args.words
    if action not in ACTIONS:
        hint = nearest(action, ACTIONS)
        raise UsageError(
            f"context: there is no action {action!r}{hint}; see 'ordercast context --help'"
        )
    if len(names) != ACTIONS[action]:
        what = "needs one NAME" if ACTIONS[action] else f"takes no name, so not {names[0]!r}"
        raise UsageError(f"context {action}: {what}; see 'ordercast context --help'")
    if action != "add" and any(getattr(args, key) for key in ("address", "site", *FILES)):
        raise UsageError(f"context {action}: --address, --cert and the others are for 'add'")
    contexts = read_contexts()
    if action == "list":
        return _list(args, contexts)
    name = require_name(names[0], f"context {action}")
    known = dict(contexts.contexts)
    current = contexts.current
    if action == "add":
        known[name] = _context(args, name)
        current = current or name
    else:
        contexts.named(name)
        if action == "use":
            current = name
        else:
            del known[name]
            current = "" if current == name else current
    write_contexts(replace(contexts, contexts=known, current=current))
    if args.json:
        print_json({"context": name, "current": current, "file": str(contexts.path)})
    else:
        print(f"{contexts.path}: {name} {'removed' if action == 'remove' else 'written'}")
    return GOOD


def _context(args: argparse.Namespace, name: str) -> "Context":
    """Checked as a client would: a wrong file or address is told now."""
    from ordercast.net.client.endpoints import Credentials, endpoints_of
    from ordercast.net.cluster.contexts import Context

    if not args.address:
        raise UsageError("context add: --address tls://HOST:PORT is missing")
    files = {key: Path(value).absolute() for key in FILES if (value := getattr(args, key))}
    endpoints = endpoints_of(",".join(args.address), Credentials(**files))
    site = "" if args.site is None else require_name(args.site, "--site")
    return Context(
        name, tuple(map(str, endpoints)), site, **{key: str(path) for key, path in files.items()}
    )


def _list(args: argparse.Namespace, contexts: "Contexts") -> int:
    rows = {
        name: {
            "addresses": list(context.addresses),
            "site": context.site,
            **{key: getattr(context, key) for key in FILES},
        }
        for name, context in sorted(contexts.contexts.items())
    }
    if args.json:
        print_json({"file": str(contexts.path), "current": contexts.current, "contexts": rows})
        return GOOD
    if not rows:
        print(f"{contexts.path}: no contexts")
        return GOOD
    lines = [("", "context", "addresses", "certificate")]
    for name, context in sorted(contexts.contexts.items()):
        mark = "*" if name == contexts.current else ""
        shown = context.cert or context.secret
        lines.append((mark, name, ", ".join(context.addresses), shown))
    print("\n".join(table_lines(lines)))
    return GOOD
