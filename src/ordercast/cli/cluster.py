"""`ordercast cluster up|down|kill|restart`: all sites of a cluster as local processes; `recover`,
when most of its voters are lost."""

import argparse
import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import (
    GOOD,
    INCOMPLETE,
    INTERRUPTED,
    MISTAKE,
    UsageError,
    complain,
    print_json,
)
from ordercast.cli.destination import dir_argument, local_destination
from ordercast.cli.runtime import action_and_cluster, elsewhere, log_arguments, new_argument, say
from ordercast.model.errors import ConfigError

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster
    from ordercast.net.cluster.processes import Child

ACTIONS = ("up", "down", "kill", "restart", "recover")
MEET_S = 5.0

DESCRIPTION = """\
Run all sites of a cluster as processes on this machine: those of the file, and those
that were added while it ran and have a store in DIR; not those that were retired.

  up       start them; in the foreground until Ctrl-C, or with --detach in the
           background: then it returns when all are ready
  down     stop them all, cleanly
  kill     end one SITE with SIGKILL, as a crash would
  restart  the same, and start it again on its store
  recover  go on without most of the voters, which are --lost for good; all sites
           here must be stopped. What only the lost ones had decided may vanish: say
           --accept-loss. The lost return with an empty store, and not otherwise

Logs of sites in the background are DIR/SITE.log; --log and --log-level of up and restart
count until the next start."""

EXAMPLE = """\
example:
  ordercast cluster up cluster.toml --detach
  ordercast cluster kill cluster.toml b
  ordercast cluster restart cluster.toml b
  ordercast cluster down cluster.toml
  ordercast cluster recover cluster.toml --lost a --lost b"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="ACTION CLUSTER [SITE]", help="see above")
    dir_argument(parser)
    parser.add_argument("--detach", action="store_true", help="up: in the background")
    new_argument(parser)
    log_arguments(parser, "up, restart: ")
    parser.add_argument("--lost", action="append", metavar="SITE", help="recover: a lost voter")
    parser.add_argument(
        "--from", dest="chosen", metavar="SITE",
        help="recover: the voter to go on from, if others that are left are on other machines",
    )  # fmt: skip
    parser.add_argument("--accept-loss", action="store_true", help="recover: do it")


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.directory import require_own
    from ordercast.net.cluster.processes import require_site

    action, file, sites = action_and_cluster(args, ACTIONS, "cluster")
    if args.detach and action != "up":
        raise UsageError(f"cluster {action}: --detach is for 'up'")
    for option in ("new", "log", "log_level"):
        if getattr(args, option) and action not in ("up", "restart"):
            name = option.replace("_", "-")
            raise UsageError(f"cluster {action}: --{name} is for 'up' and 'restart'")
    if action != "recover" and (args.lost or args.chosen or args.accept_loss):
        raise UsageError(f"cluster {action}: --lost, --from and --accept-loss are for 'recover'")
    wanted = 1 if action in ("kill", "restart") else 0
    if len(sites) != wanted:
        what = "needs one SITE" if wanted else f"takes no site, so not {sites[0]!r}"
        raise UsageError(f"cluster {action}: {what}; see 'ordercast cluster --help'")
    place = local_destination(args, file, "cluster")
    cluster, directory = place.cluster, place.directory
    require_own(directory)
    for site in sites:
        require_site(cluster, site, directory)
    if action == "up":
        return _up(cluster, directory, args)
    if action == "down":
        return _down(cluster, directory, args)
    if action == "recover":
        return _recover(cluster, directory, args)
    return _kill(cluster, directory, sites[0], args, again=action == "restart")


def _up(cluster: "Cluster", directory: Path, args: argparse.Namespace) -> int:
    from ordercast.net.cluster import processes
    from ordercast.net.store.places import require_free, require_place

    there = processes.all_running(cluster, directory)
    if there:
        names = ", ".join(f"{daemon.site} (process {daemon.pid})" for daemon in there)
        raise ConfigError(f"{directory}: running already: {names}; 'ordercast cluster down' stops")
    here = processes.sites_here(cluster, directory)
    sites = [site for site in here if not processes.is_retired(directory, site)]
    require_place(cluster, sites, directory, new=args.new)
    require_free(cluster, sites, directory)
    started = processes.start(
        cluster, sites, directory, detached=args.detach, **_options_of_start(args)
    )
    try:
        processes.wait_ready(started, directory)
        if set(cluster.sites) <= set(here):
            _meet(cluster, started, directory)
        _print_started(
            args, cluster, directory, {site: child.pid for site, child in started.items()}
        )
        if args.detach:
            return GOOD
        return _attend(cluster, directory, started)
    except processes.StartFailed as error:
        processes.abandon(started.values())
        complain(str(error))
        return MISTAKE if error.code == MISTAKE else INCOMPLETE
    except BaseException:  # Ctrl-C before all are ready: none is left behind
        processes.abandon(started.values())
        raise


def _options_of_start(args: argparse.Namespace) -> dict[str, Any]:
    return {"new": args.new, "log": args.log, "log_level": args.log_level}


def _meet(cluster: "Cluster", started: "dict[str, Child]", directory: Path) -> None:
    """Wait until the sites are connected and the voters have found each other; if that takes long,
    `status` says why. One that ends meanwhile has not started."""
    from ordercast.net.client.statuses import ask
    from ordercast.net.cluster.processes import require_all_run

    until = time.monotonic() + MEET_S
    while time.monotonic() < until:
        found = asyncio.run(ask(cluster, list(started), directory))
        require_all_run(started, directory)
        if all(site["state"] == "up" for site in found.values()):
            return
        time.sleep(0.05)


def _print_started(
    args: argparse.Namespace, cluster: "Cluster", directory: Path, pids: dict[str, int]
) -> None:
    if args.json:
        print_json({"cluster": cluster.name, "dir": str(directory), "sites": pids})
        return
    names = ", ".join(f"{site} ({pid})" for site, pid in pids.items())
    print(f"cluster {cluster.name} is up: {names}", flush=True)
    if not args.detach:
        say("Ctrl-C stops it")


def _attend(cluster: "Cluster", directory: Path, started: "dict[str, Child]") -> int:
    """Wait for Ctrl-C, or for SIGTERM, after which all is good. A site that ends is named; another
    command may restart it."""
    from ordercast.net.cluster import processes

    code_at_end = INTERRUPTED

    def terminate(*_: Any) -> None:
        nonlocal code_at_end
        code_at_end = GOOD
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    gone: dict[str, None] = {}
    try:
        while len(gone) < len(started) or processes.all_running(cluster, directory):
            for site, child in started.items():
                code = child.poll()
                if code is not None and site not in gone:
                    gone[site] = None
                    complain(f"site {site} has ended ({processes.ending(code)})")
            time.sleep(0.1)
        complain("no site runs any more")
        return INCOMPLETE
    except KeyboardInterrupt:
        say("stopping")
        processes.stop(processes.all_running(cluster, directory))
        processes.abandon(started.values())
        return code_at_end


def _down(cluster: "Cluster", directory: Path, args: argparse.Namespace) -> int:
    from ordercast.net.cluster import processes

    there = processes.all_running(cluster, directory)
    killed = processes.stop(there)
    stopped = [daemon.site for daemon in there]
    if args.json:
        print_json({"cluster": cluster.name, "stopped": stopped, "killed": killed})
    elif not stopped:
        print(f"no site of {cluster.name} runs from {directory}{elsewhere(cluster, directory)}")
    else:
        print(f"stopped: {', '.join(stopped)}")
    if killed:
        complain(f"did not stop in time and had to be killed: {', '.join(killed)}")
        return INCOMPLETE
    return GOOD


def _kill(
    cluster: "Cluster", directory: Path, site: str, args: argparse.Namespace, *, again: bool
) -> int:
    from ordercast.net.cluster import processes

    daemon = processes.running(directory, site)
    if daemon is None and not again:
        told = elsewhere(cluster, directory)
        raise ConfigError(f"site {site!r} does not run from {directory}{told}")
    if daemon is not None:
        processes.kill(daemon)
    result: dict[str, Any] = {"site": site, "killed": None if daemon is None else daemon.pid}
    if again:
        started = processes.start(
            cluster, [site], directory, detached=True, **_options_of_start(args)
        )
        try:
            processes.wait_ready(started, directory)
        except processes.StartFailed as error:
            processes.abandon(started.values())
            complain(str(error))
            return MISTAKE if error.code == MISTAKE else INCOMPLETE
        result["pid"] = started[site].pid
    if args.json:
        print_json(result)
    else:
        before = f"killed {site} (process {daemon.pid})" if daemon else f"{site} did not run"
        print(before + (f", restarted as process {result['pid']}" if again else ""))
    return GOOD


def _recover(cluster: "Cluster", directory: Path, args: argparse.Namespace) -> int:
    from ordercast.net.site.recovery_plan import Recovery

    with Recovery(cluster, directory) as recovery:
        plan = recovery.plan(args.lost or [], args.chosen or "")
        voters, lost = ", ".join(plan.voters), ", ".join(plan.lost)
        for one in plan.left:
            say(f"{one.site}: {one.records:,} records, the last of term {one.term}")
        if not args.accept_loss:
            raise ConfigError(
                f"nothing was changed: {voters} would decide alone, going on from {plan.chosen};"
                f" what only {lost} had decided would vanish. Say --accept-loss to do it"
            )
        recovery.carry_out(plan)
    if args.json:
        records = {one.site: [one.term, one.records] for one in plan.left}
        found = {"voters": list(plan.voters), "lost": list(plan.lost), "from": plan.chosen}
        print_json({"cluster": cluster.name, **found, "records": records})
        return GOOD
    print(f"{plan.chosen} goes on with the voters {voters}, without {lost}: start them now")
    return GOOD
