"""The options of `ordercast plan`: one table for the command line and sweeps."""

from ordercast.forest.given_tree import GIVEN
from ordercast.model.verb_options import Flag, Names, Notation, VerbOption, WholeNumber, Word
from ordercast.plan.advice import AUTO
from ordercast.plan.candidates import NAMED
from ordercast.plan.objectives import EVERY_OBJECTIVE

BUILDER_NAMES = (*NAMED, GIVEN, AUTO)
TABLE = (
    VerbOption("builder", Word(BUILDER_NAMES),
               "greedy, star, balanced, given (a tree) or auto (default: auto, the best by the"
               " objective)", "NAME",
               default=AUTO),
    VerbOption("objective", Word(EVERY_OBJECTIVE),
               "delay, load, messages or, between them, mixed (default: delay)", "NAME",
               default="delay"),
    VerbOption("branching", WholeNumber(2),
               "balanced: children per site (default: chosen for the objective)", "N"),
    VerbOption("tie", Names(),
               "greedy: sites preferred in ties (default: the name that sorts first)", "A,B,...",
               default=()),
    VerbOption("rebalance", Flag(),
               "move children of busy sites deeper: less load, more depth, no extra sites",
               default=False),
    VerbOption("network", Notation(), "what a hop and a message take: lan (the default),"
               " p2p:P=1ms,L=5ms, wan[:FILE] or tree:b=3,p=4, as for 'sim'", "SPEC", default="lan",
               unswept="it is for the advice on protocols, which a sweep of 'sim' runs"),
    VerbOption("draw", Notation(), "draw the forest to FILE.svg or FILE.png (extra: plot)", "FILE",
               configures=False, unswept="it draws a picture"),
    VerbOption("trade_off", Flag(),
               "show the best forests by delay, by load and between them, side by side",
               default=False, configures=False, unswept="it shapes the output"),
    VerbOption("full", Flag(),
               "with --json: name extra sites even when there are more than a million",
               default=False, configures=False, unswept="it shapes the output"),
)  # fmt: skip
