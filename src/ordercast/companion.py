"""The compiled companion: extension modules that take the place of pure modules, where installed.

The package `ordercast_compiled` (built by `make compiled`, never needed) has the pure rooms and the
simulator's loop, compiled, and `manifest.json`: the version and a digest of the sources that they
were compiled from. They run only if both are the same here, since
a compiled module has the constants and the layout of other modules' objects built in. Otherwise one
line on standard error says so, and the pure modules run. `ORDERCAST_PURE=1` switches them off.

`ordercast` imports this module before all others: a module that is loaded is not replaced.
"""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = "ordercast_compiled"
LIBRARY = f"{PACKAGE}__mypyc"  # holds the code; the other extension modules only lead to it
MANIFEST = "manifest.json"
SWITCH = "ORDERCAST_PURE"
ROOMS = ("model", "wire", "forest", "core", "sim")  # a change in one of them makes it stale

PURE, COMPILED = "pure", "compiled"
_ANEW = "the pure modules run; 'make compiled' builds it anew"


class StaleCompanionError(Exception):
    """The companion that is installed does not fit; the message says why."""


class CompanionFinder(MetaPathFinder):
    """Leads imports of the compiled modules to the companion's files."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        file = self.files.get(fullname)
        if file is None:
            return None
        loader = ExtensionFileLoader(fullname, str(file))
        return spec_from_file_location(fullname, file, loader=loader)


def digest_of_sources(package: Path) -> str:
    """A digest of all modules in the rooms that are compiled, or that compiled modules build on."""
    found = hashlib.sha256()
    for room in ROOMS:
        top = package / room
        for file in sorted(top.rglob("*.py")):
            content = file.read_bytes()
            found.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


def compiled_files(directory: Path, package: Path) -> dict[str, Path]:
    """The companion's extension modules by the names of the modules that they replace."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        version, digest = manifest["version"], manifest["digest"]
        modules = [str(name) for name in manifest["modules"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise StaleCompanionError(f"{directory / MANIFEST} cannot be read") from None
    mine = _version(package)
    if version != mine:
        raise StaleCompanionError(f"is of version {version}, not {mine}")
    if digest != digest_of_sources(package):
        raise StaleCompanionError("was compiled from other sources")
    suffix = EXTENSION_SUFFIXES[0]
    files = {
        name: directory.joinpath(*name.split(".")).with_suffix(suffix)
        for name in [LIBRARY, *modules]
    }
    missing = [name for name, file in files.items() if not file.is_file()]
    if missing:
        raise StaleCompanionError(f"has no {missing[0]} for this Python ({suffix})")
    return files


def _version(package: Path) -> str:
    """The version, read without an import: `model` is imported when this is done."""
    text = (package / "model" / "version.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def _install() -> str:
    """Put the companion in its place, if there is one that fits. Returns which modules run."""
    if os.environ.get(SWITCH, "") not in ("", "0"):
        return PURE
    found = PathFinder.find_spec(PACKAGE)
    if found is None or found.origin is None:
        return PURE
    try:
        files = compiled_files(Path(found.origin).parent, Path(__file__).parent)
    except StaleCompanionError as why:
        print(f"ordercast: the compiled companion {why}: {_ANEW}", file=sys.stderr)
        return PURE
    sys.meta_path.insert(0, CompanionFinder(files))
    return COMPILED


CODE = _install()
"""Which modules run in this process: `pure` or `compiled`."""
