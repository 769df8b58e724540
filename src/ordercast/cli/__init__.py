"""The command `ordercast`: one file per verb, loaded only when its verb is called.

A verb's module offers `arguments(parser)` and `run(args) -> exit code`; `VERBS` names them all.
What every verb shares is one module: exit codes, the one line for a user's mistake, `--json`.
"""

import sys
from collections.abc import Sequence

from ordercast.cli.command import Verb, run_verb

VERBS = (
    Verb("plan", "choose a propagation forest for overlapping groups, and say why"),
    Verb("sim", "run groups in virtual time with faults, and check every delivery"),
    Verb("stability", "one round of a stability protocol on a tree of up to 20,000 members"),
    Verb("init", "write a new cluster file, with its secret or certificates"),
    Verb("node", "run one site of a cluster, in the foreground"),
    Verb("cluster", "run all sites of a cluster on this machine: up, down, kill, restart"),
    Verb("send", "send messages to a group through a running site"),
    Verb("tail", "print a running site's deliveries as they come"),
    Verb("reader", "list, reset or remove the named readers of a running site"),
    Verb("producer", "list or remove the named producers of a running cluster"),
    Verb("status", "how the running sites are, and who holds them up"),
    Verb("top", "the running cluster on one screen, live: sites, groups, epochs, links"),
    Verb("dashboard", "a web page about a cluster, a history or a simulated run"),
    Verb("doctor", "what is wrong with a cluster, and what to do next"),
    Verb("group", "add, remove, join, leave or list the groups of a running cluster"),
    Verb("site", "add a site to a running cluster, or retire one"),
    Verb("protocol", "switch the ordering protocol of a running cluster"),
    Verb("voter", "choose the sites that decide changes of a running cluster"),
    Verb("grant", "who may do what in a running cluster: add, remove, list"),
    Verb("epoch", "the open epochs of a running cluster, and changes under way"),
    Verb("context", "name places where verbs go: addresses of daemons, and a certificate"),
    Verb("certs", "make the certificates of a cluster, or revoke one"),
    Verb("bench", "how fast sites are on this machine, under load"),
    Verb("export", "write the stores of a cluster as a history"),
    Verb("backup", "copy the store of a site, while it runs or not"),
    Verb("restore", "make a store for a site that has lost its own, from a copy"),
    Verb("inspect", "what the stores of a cluster hold, and what is damaged in them"),
    Verb("compact", "give the free pages of a stopped site's store back"),
    Verb("audit", "judge a history of any size by every guarantee, on Spark"),
    Verb("sweep", "run a grid of plans or simulations on Spark, with means and intervals"),
    Verb("reproduce", "redo the papers' tables and figures, and say where they differ"),
    Verb("demo", "a first look: nine sites, one killed, the others go on, all of it judged"),
    Verb("docs", "print a page of the documentation"),
    Verb("completion", "a script that completes the command in bash, zsh or fish"),
    Verb("man", "the manual page of the command"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(VERBS, list(sys.argv[1:] if argv is None else argv))
