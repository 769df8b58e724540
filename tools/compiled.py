"""Compile the pure rooms and the simulator's loop with mypyc: `make compiled`.

    python -m tools.compiled [--wheel DIRECTORY] [--only MODULE …]

Builds the wheel `ordercast-compiled` and installs it in the environment that runs this; with
`--wheel` it is only built. What can be compiled is found in the sources. A class whose base is
interpreted stays interpreted, and so does the base of an interpreted class: so a module is left out
if one of its classes is a `msgspec.Struct` or an `Enum`, or shares a base with a module left out.
So is one with a `cached_property`: compiled, it would be computed at every use.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
ROOMS = ("core", "wire", "forest")
LOOP = ("driver", "networks", "message_costs", "place", "recorder", "world")  # of `sim`
_INTERPRETED = ("msgspec.Struct", "enum.Enum", "functools.cached_property")
_MYPY = (
    "--strict", "--ignore-missing-imports", "--explicit-package-bases", "--no-warn-unused-ignores",
)  # fmt: skip


def compiled_modules(source: Path = SOURCE) -> list[str]:
    """The modules that are compiled, by name."""
    bases = dict(_bases(source))
    rooms = tuple(f"ordercast.{room}." for room in ROOMS)
    loop = {f"ordercast.sim.{name}" for name in LOOP}
    chosen = {name for name in bases if name.startswith(rooms) or name in loop}
    while True:
        out = {
            module
            for name, pairs in bases.items()
            for _, base in pairs
            for module in _apart(name, base, chosen)
        }
        if not out:
            return sorted(chosen)
        chosen -= out


def _apart(name: str, base: str, chosen: set[str]) -> Iterator[str]:
    """Which of a class's module and its base's module cannot be compiled."""
    home = base.rpartition(".")[0]
    if name in chosen and (base in _INTERPRETED or (_ours(base) and home not in chosen)):
        yield name
    if home in chosen and name not in chosen:
        yield home


def _ours(name: str) -> bool:
    return name.startswith("ordercast.")


def _bases(source: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Every module, with its classes and the full names of their bases. What a class has of a
    `cached_property` counts as a base."""
    for file in sorted((source / "ordercast").rglob("*.py")):
        if file.name == "__init__.py":
            continue
        module = ".".join(file.relative_to(source).with_suffix("").parts)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        known = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        known |= {node.name: f"{module}.{node.name}" for node in classes}
        pairs = [
            (node.name, known.get(base, base))
            for node in classes
            for base in (_plain(expression) for expression in node.bases)
        ]
        if "functools.cached_property" in known.values():
            pairs.append(("", "functools.cached_property"))
        yield module, pairs


def _plain(base: ast.expr) -> str:
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


# --- building -----------------------------------------------------------------------------------


def build(modules: Sequence[str], wheels: Path) -> Path:
    """Compile the modules and pack them. Returns the wheel."""
    with tempfile.TemporaryDirectory(prefix="ordercast-compiled-") as made:
        place = Path(made)
        package = place / "ordercast_compiled"
        package.mkdir()
        shutil.copytree(SOURCE / "ordercast", place / "ordercast", ignore=_CACHES)
        version, digest = _identity(place / "ordercast")
        manifest = {"version": version, "digest": digest, "modules": list(modules)}
        (package / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        (package / "__init__.py").write_text('"""Compiled modules of ordercast."""\n')
        before = Path.cwd()
        os.chdir(place)
        try:
            _pack(modules, version)
        finally:
            os.chdir(before)
        wheel = next((place / "dist").glob("*.whl"))
        wheels.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, wheels / wheel.name))


_CACHES = shutil.ignore_patterns("__pycache__")


def _identity(package: Path) -> tuple[str, str]:
    from ordercast.companion import digest_of_sources
    from ordercast.model.version import __version__

    return __version__, digest_of_sources(package)


def _pack(modules: Sequence[str], version: str) -> None:
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class Parallel(build_ext):  # type: ignore[misc]
        def build_extensions(self) -> None:
            self.compiler.compile = _on_all_cores(self.compiler)
            super().build_extensions()

    files = [f"{name.replace('.', '/')}.py" for name in modules]
    extensions = mypycify(
        [*_MYPY, *files], opt_level="1", debug_level="0", multi_file=True,
        group_name="ordercast_compiled",
    )  # fmt: skip
    for extension in extensions:
        extension.name = f"ordercast_compiled.{extension.name}"
    setup(
        name="ordercast-compiled",
        version=version,
        description="Compiled modules of ordercast: the same, faster",
        license="Apache-2.0",
        packages=["ordercast_compiled"],
        package_data={"ordercast_compiled": ["manifest.json"]},
        install_requires=[f"ordercast=={version}"],
        python_requires=">=3.11",
        ext_modules=extensions,
        cmdclass={"build_ext": Parallel},
        options={"build_ext": {"parallel": os.cpu_count()}},
        script_args=["--quiet", "bdist_wheel"],
    )


def _on_all_cores(compiler: Any) -> Callable[..., list[str]]:
    """What `compiler.compile` does, with the files of one extension side by side."""

    def compile_all(
        sources: list[str], output_dir: str | None = None, macros: Any = None,
        include_dirs: Any = None, debug: bool = False, extra_preargs: Any = None,
        extra_postargs: Any = None, depends: Any = None,
    ) -> list[str]:  # fmt: skip
        macros, objects, extra, options, work = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        arguments = compiler._get_cc_args(options, debug, extra_preargs)

        def compile_one(made: str) -> None:
            compiler._compile(made, *work[made], arguments, extra, options)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, [made for made in objects if made in work]))
        return list(objects)

    return compile_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.compiled", description="Build the companion.")
    parser.add_argument("--wheel", type=Path, metavar="DIRECTORY", help="build only, to here")
    parser.add_argument("--only", nargs="+", metavar="MODULE", help="compile these modules only")
    options = parser.parse_args()
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        print("compiled: no C compiler here (cc or gcc); the pure modules run", file=sys.stderr)
        return 1
    begun = time.monotonic()
    modules = options.only or compiled_modules()
    wheels = (options.wheel or ROOT / "dist").absolute()
    wheel = build(modules, wheels)
    if options.wheel is None:
        install = ["install", "--no-deps", "--no-index", "--force-reinstall", "--quiet"]
        subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)
    took = time.monotonic() - begun
    print(f"{len(modules)} modules in {took:.0f} s: {wheel}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
