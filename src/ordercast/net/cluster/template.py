"""A new cluster file: every setting with its default and its meaning, most of them commented out.

`SETTINGS` is the table of all settings. `ordercast init` writes it, docs/operations.md shows it,
and a test reads it back and compares it with the defaults.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ordercast.core.dissemination.registry import MULTICAST, WAYS
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.grants import ACTS
from ordercast.model.groups import Group, Site
from ordercast.net.cluster.addresses import is_loopback
from ordercast.net.cluster.config import LimitsConfig
from ordercast.net.cluster.directory import AROUND
from ordercast.net.cluster.file import LOG_FORMS, LOG_LEVELS, cluster_of_groups
from ordercast.plan.advice import AUTO
from ordercast.plan.candidates import NAMED

WIDTH: Final = 110
_COMMENT: Final = 33  # the column of meanings
_LIMITS: Final = LimitsConfig()
_METRICS: Final = 9_101  # a port for the metrics of the first site
_CLIENTS: Final = 7_201  # and one for its clients on other machines


@dataclass(frozen=True, slots=True)
class _Setting:
    """One line of the file. `default` is as TOML writes it; None: `NewCluster` knows it."""

    name: str
    default: str | None
    meaning: str


def _or(names: Iterable[str], default: str) -> str:
    others = [f'"{name}"' for name in names if name != default]
    return f"or {', '.join(others)}"


def _limit(name: str, meaning: str) -> _Setting:
    """A number of [limits], with the default that the file has without it."""
    return _Setting(name, str(getattr(_LIMITS, name)), meaning)


SETTINGS: Final[Mapping[str, Sequence[_Setting]]] = {
    "cluster": (
        _Setting("dir", None, "stores, sockets, logs; relative to this file"),
        _Setting("secret", None, "what sites without certificates prove to each other"),
        _Setting(
            "protocol", '"propagation"',
            f'{_or(PROTOCOLS, "propagation")}; "hybrid:N": its core has N sites,'
            ' "hybrid:N:M": and its groups M',
        ),
        _Setting("builder", '"auto"', f"as in 'ordercast plan'; {_or(NAMED, AUTO)}"),
        _Setting("tie", "[]", "builder greedy: sites preferred in ties; else the first by name"),
        _Setting("deliver", '"safe"', 'or "agreed": sooner, before every member has it durably'),
        _Setting("on_failure", '"exclude"', 'or "wait": for a site that fails, until it is back'),
        _Setting("causal", "false", "true: nothing is delivered before what happened before it"),
        _Setting("stability", '"s_coordp"', _or(TRACKERS, "s_coordp")),
        _Setting(
            "durability", '"sync"',
            'or "os" (survives a crash of the process), "memory" (nothing does)',
        ),
        _Setting(
            "slow_member", '"wait"',
            'or "shed": an application that lags gets gaps instead of holding up; or "exclude":'
            " its site is excluded as a failed one is",
        ),
        _Setting(
            "unnamed_reader", "true",
            "false: applications read under names only; the store and other sites wait for no other"
            " reader",
        ),
        _Setting("open", "false", "true: sends across domains, all trees under one root"),
        _Setting("dissemination", '"unicast"', _or(WAYS, "unicast")),
        _Setting("voters", None, "who decides changes: all sites up to 7, or the first 5 by name"),
        _Setting(
            "retired", "[]",
            "sites below that have left since: who starts without a store does not believe them",
        ),
        _Setting("log", '"text"', _or(LOG_FORMS, "text")),
        _Setting("log_level", '"info"', f"{_or(LOG_LEVELS, 'info')}: daemons log from it on"),
    ),
    "limits": (
        _limit("window_messages", "sent by a site and not yet stable"),
        _limit("window_bytes", 'sizes may be written "8MiB", "2GB"'),
        _limit("message_bytes", "the largest message"),
        _limit("unread_messages", "delivered and not yet read by the application"),
        _limit("unread_bytes", "the same in bytes"),
        _limit(
            "missed_bytes",
            "kept for sites that are away; beyond it they return by the application's snapshot",
        ),
        _limit(
            "reader_bytes",
            "kept for a named reader that is behind; beyond it there is a gap",
        ),
        _Setting("reader_age", '"7d"', "the same by age"),
        _limit("subject_connections", "of one client from elsewhere, at a daemon"),
        _limit("subject_rate", "bytes per second that it may bring there; 0: any number"),
        _limit("subject_window", "percent of the window that it may have under way"),
        _Setting("retention", '"stable"', 'or an age ("24h") or a size ("2GB")'),
    ),
    "timeouts": (
        _Setting(
            "suspect", '"1s"',
            "of silence, before a site is excluded; a peer silent for three times as long is"
            " dialled anew",
        ),
        _Setting(
            "hold", '"0s"',
            "of requests that may combine (combining, hybrid, combining_counting); at most suspect",
        ),
    ),
    "multicast": (
        _Setting("address", None, 'for dissemination = "multicast"'),
        _Setting("ttl", None, "0 where all sites are on one machine, else 1"),
        _Setting("datagram_bytes", "1400", "the largest datagram"),
    ),
    "tls": (
        _Setting("dir", None, "certificates ('ordercast certs' makes them); relative to this file"),
        _Setting(
            "insecure", None,
            "instead of dir: no certificates, although addresses are not of the loopback",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewCluster:
    """What a new cluster file says; the rest of it are defaults."""

    name: str
    sites: Mapping[Site, str]  # HOST:PORT
    groups: Mapping[Group, Sequence[Site]]
    dir: str = ""  # "": the default
    tls: str = ""  # the directory of certificates
    insecure: bool = False
    secret: str = ""

    def text(self) -> str:
        """The file."""
        lines = [
            "# All sites of the cluster read the same file. A setting behind a '#' has the default"
            " that is shown.",
            "",
            "[cluster]",
            _line("name", json.dumps(self.name)),
        ]
        defaults, chosen = self._defaults(), self._chosen()
        for table, settings in SETTINGS.items():
            head = f"[{table}]"
            used = any(key[0] == table for key in chosen)
            if table != "cluster":
                lines += ["", head if used else f"# {head}"]
            for setting in settings:
                key = table, setting.name
                if key in chosen:
                    lines += _told(_line(setting.name, chosen[key]), setting.meaning)
                elif (value := defaults.get(key, setting.default)) is not None:
                    lines += _told(f"# {_line(setting.name, value)}", setting.meaning)
        for number, (site, address) in enumerate(self.sites.items()):
            host = address.rpartition(":")[0]
            metrics = _line("metrics", json.dumps(f"{host}:{_METRICS + number}"))
            lines += ["", f"[sites.{_key(site)}]", _line("address", json.dumps(address))]
            clients = _line("clients", json.dumps(f"{host}:{_CLIENTS + number}"))
            lines += _told(f"# {metrics}", "/metrics and /healthz; without it there are none")
            lines += _told(
                f"# {clients}", "for clients on other machines; without it there are none"
            )
        lines += ["", "[groups]"]
        lines += [
            _line(_key(name), json.dumps(list(members))) for name, members in self.groups.items()
        ]
        lines += ["", "# [grants]"]
        granted = json.dumps([f"send:{next(iter(self.groups))}", "observe"])
        told = "who may do what; absent: this machine's user and sites all, other clients nothing"
        lines += _told(f'# "socket" = {json.dumps(list(ACTS))}', told)
        lines += [f'# "client:billing" = {granted}']
        return "\n".join(lines) + "\n"

    def _defaults(self) -> dict[tuple[str, str], str]:
        """Defaults that depend on the rest of the file."""
        hosts = [address.rpartition(":")[0].strip("[]") for address in self.sites.values()]
        local = all(map(is_loopback, hosts))
        like = cluster_of_groups(
            self.groups, sites=list(self.sites), name=self.name, dissemination=MULTICAST
        )
        assert like.multicast is not None
        place = self.dir or f"{AROUND}/{self.name}"
        found = {
            ("cluster", "dir"): json.dumps(place),
            ("cluster", "voters"): json.dumps(list(like.voters)),
            ("multicast", "address"): json.dumps("{}:{}".format(*like.multicast.address)),
            ("multicast", "ttl"): "0" if local else "1",
            ("tls", "dir"): '"certs"',
            ("tls", "insecure"): "true",
        }
        if not self.tls and not self.insecure:
            found["cluster", "secret"] = json.dumps(f"{place}/secret")
        return found

    def _chosen(self) -> dict[tuple[str, str], str]:
        """Settings that are not left at their defaults."""
        given = {
            ("cluster", "dir"): self.dir,
            ("cluster", "secret"): self.secret,
            ("tls", "dir"): self.tls,
        }
        found = {key: json.dumps(value) for key, value in given.items() if value}
        if self.insecure:
            found["tls", "insecure"] = "true"
        return found


def _key(name: str) -> str:
    """A name as a key of TOML: a dot would divide it."""
    return f'"{name}"' if "." in name else name


def _line(key: str, value: str) -> str:
    return f"{key} = {value}"


def _told(line: str, meaning: str) -> list[str]:
    """The line with its meaning as a comment beside it; what does not fit stands below."""
    column = max(_COMMENT, len(line) + 2)
    first, *rest = textwrap.wrap(meaning, WIDTH - column - 2)
    below = textwrap.wrap(" ".join(rest), WIDTH - _COMMENT - 2)
    return [f"{line:<{column}}# {first}", *(f"{'#':<{_COMMENT}}# {part}" for part in below)]
