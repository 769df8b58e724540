"""What executors of a cluster get from the driver: this package, the packages that it needs, and
which Python runs them.

Two archives, each made once and kept in the user's cache: one of the dependencies, which change
seldom, and a small one of the package. `PYTHONPATH` puts both before whatever the executor's own
Python has installed. Executors need nothing but a Python of the driver's version. If there is an
environment already, its Python is named by `spark.pyspark.python`, and nothing is shipped.

Spark runs a data source by one name of a Python, at the driver (which plans) and on executors
(which read). So Python goes by its name, such as python3.12, and not by the path of a script that
only executors have: `python_of` gives the driver its own Python under that name.
"""

import gzip
import hashlib
import os
import platform
import re
import shlex
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from ordercast.model.errors import ConfigError, reason
from ordercast.whole_files import drafted

PYTHON = "spark.pyspark.python"
ARCHIVES = "spark.archives"
PATHS = "spark.executorEnv.PYTHONPATH"
_CODE, _PACKAGES = "ordercast-code", "ordercast-packages"
_EXTRAS = ("spark", "partition")
_HAVE = {"pyspark", "py4j"}  # of Spark itself
_LEFT_OUT = {"__pycache__", "tests", "include"}  # a third of the size
_KEPT = 3  # archives of a kind: of older releases, or of a checkout that changes
_FAST = 1  # of gzip: three times as quick as its default, for a sixth more bytes
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(.*)")


def shipped(conf: Mapping[str, str], python: str | None) -> dict[str, str]:
    """Settings with which executors get what they need.

    `python`: on the executors; by default the name of the driver's version, such as python3.12.
    """
    if PYTHON in conf:
        return {}
    named = python or f"python{sys.version_info.major}.{sys.version_info.minor}"
    archives = [f"{_code()}#{_CODE}", f"{_packages()}#{_PACKAGES}"]
    given = [conf[ARCHIVES]] if ARCHIVES in conf else []
    paths = [conf[PATHS]] if PATHS in conf else []
    return {
        ARCHIVES: ",".join([*given, *archives]),
        PATHS: ":".join([*paths, _CODE, _PACKAGES]),  # below the executor's own folder
        PYTHON: named,
    }


def python_of(executors: str, scratch: Path) -> dict[str, str]:
    """The environment in which the driver's JVM starts, so that `executors`, the name of their
    Python, means this one at the driver. A path means the same file everywhere: there data sources
    run the driver's own path."""
    if "/" in executors:
        return {"PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": sys.executable}
    folder = scratch / "python"
    folder.mkdir()
    script = folder / executors
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    before = os.environ.get("PATH", os.defpath)
    return {
        "PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": executors,
        "PATH": f"{folder}{os.pathsep}{before}",
    }  # fmt: skip


def _code() -> Path:
    """The package as it is here."""
    root = Path(__file__).resolve().parents[1]
    files = [
        (PurePosixPath(root.name, *file.relative_to(root).parts), file)
        for file in sorted(root.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    about = [f"{name} {file.stat().st_size} {file.stat().st_mtime_ns}" for name, file in files]

    def fill(archive: tarfile.TarFile) -> None:
        for name, file in files:
            archive.add(file, str(name))

    return _kept("code", about, fill)


def _packages() -> Path:
    """What the package needs on executors."""
    found = sorted(_needed().items())
    about = [f"{name} {dist.version}" for name, dist in found]

    def fill(archive: tarfile.TarFile) -> None:
        for _, dist in found:
            for name in dist.files or ():
                file = Path(str(dist.locate_file(name)))
                if ".." not in name.parts and not _LEFT_OUT & {*name.parts} and file.is_file():
                    archive.add(file, str(name))

    return _kept("packages", [sys.version, platform.platform(), *about], fill)


def _needed() -> dict[str, Distribution]:
    """The distributions that ours requires, also indirectly, as far as they are installed."""
    found: dict[str, Distribution] = {}
    waiting = list(_required("ordercast", _EXTRAS))
    while waiting:
        name = waiting.pop()
        if name in found or name in _HAVE:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another system or another Python
        waiting += _required(name, ())
    return found


def _required(name: str, extras: tuple[str, ...]) -> Iterator[str]:
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        raise ConfigError(
            f"{name} runs here without being installed: 'pip install' it, or name a Python of the"
            f" executors that has it by --conf {PYTHON}=PYTHON"
        ) from None
    for text in requirements:
        words, _, condition = text.partition(";")
        match = _REQUIREMENT.match(words.strip())
        wanted = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", condition)
        if match and (wanted is None or wanted[1] in extras):
            yield re.sub(r"[-_.]+", "-", match[1]).lower()


def _kept(kind: str, about: list[str], fill: "Callable[[tarfile.TarFile], None]") -> Path:
    """The archive of what is told, from the cache or new; whole or not there."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ordercast"
    digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]
    target = folder / f"executors-{kind}-{digest}.tar.gz"
    if target.exists():
        os.utime(target)
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            drafted(target) as draft,
            draft.open("wb") as raw,
            gzip.GzipFile("", "wb", _FAST, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|") as archive,
        ):
            fill(archive)
    except OSError as error:
        raise ConfigError(f"{folder}: {reason(error)}") from None
    others = sorted(folder.glob(f"executors-{kind}-*.tar.gz"), key=lambda p: p.stat().st_mtime)
    for old in others[:-_KEPT]:
        old.unlink(missing_ok=True)
    return target
