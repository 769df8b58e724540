"""Contexts: named places where verbs go, in a file of the user.

A context has the addresses of daemons, and the files of a certificate or of the cluster's secret.
One of them may be the current one. The file is `ordercast/contexts.toml` below the user's directory
of settings, and for the user alone.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ordercast.model.errors import ConfigError, reason
from ordercast.model.names import nearest, require_keys, require_name, shown
from ordercast.whole_files import OURS, write_file

FILES: Final = ("cert", "key", "ca", "secret")
MOST_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Context:
    """Paths are absolute, so that a context means the same wherever it is used."""

    name: str
    addresses: tuple[str, ...]
    site: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Contexts:
    """All of them, by name, and the name of the current one."""

    path: Path
    contexts: Mapping[str, Context]
    current: str = ""

    def named(self, name: str) -> Context:
        found = self.contexts.get(name)
        if found is None:
            hint = nearest(name, self.contexts)
            raise ConfigError(f"{self.path}: there is no context {name!r}{hint}")
        return found


def contexts_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if base and Path(base).is_absolute() else Path("~/.config").expanduser()
    return home / "ordercast" / "contexts.toml"


def read_contexts() -> Contexts:
    """What the file says; without one there are none."""
    path = contexts_path()
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path}: is larger than {MOST_BYTES:,} bytes, no file of contexts")
        given = tomllib.loads(data.decode("utf-8"))
    except FileNotFoundError:
        return Contexts(path, {})
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    require_keys(given, ("current", "contexts"), str(path))
    tables = given.get("contexts", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: [contexts] must be a table, not {shown(tables)}")
    found = {name: _context(name, table, path) for name, table in tables.items()}
    current = given.get("current", "")
    if not isinstance(current, str) or (current and current not in found):
        raise ConfigError(f"{path}: current: there is no context {shown(current)}")
    return Contexts(path, found, current)


def _context(name: str, table: Any, path: Path) -> Context:
    where = f"{path}: contexts.{require_name(name, f'{path}: contexts')}"
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: must be a table, not {shown(table)}")
    require_keys(table, ("addresses", "site", *FILES), where)
    addresses = table.get("addresses", [])
    if not isinstance(addresses, list) or not addresses:
        raise ConfigError(f"{where}.addresses: must be a list of addresses")
    for value in (*addresses, *(table.get(key, "") for key in ("site", *FILES))):
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {shown(value)} is not a text")
    rest = {key: table[key] for key in ("site", *FILES) if key in table}
    return Context(name, tuple(addresses), **rest)


def write_contexts(contexts: Contexts) -> None:
    lines = [f"current = {_quoted(contexts.current)}"] if contexts.current else []
    for name, context in sorted(contexts.contexts.items()):
        listed = ", ".join(_quoted(address) for address in context.addresses)
        lines += ["", f'[contexts."{name}"]', f"addresses = [{listed}]"]
        for key in ("site", *FILES):
            if value := getattr(context, key):
                lines.append(f"{key} = {_quoted(value)}")
    try:
        contexts.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(contexts.path, ("\n".join(lines) + "\n").encode(), mode=OURS)
    except OSError as error:
        why = reason(error)
        raise ConfigError(f"{contexts.path}: cannot be written ({why})") from None


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else "\\" + c if c in '"\\' else c
        for c in text
    )
    return f'"{escaped}"'
