"""The Spark suite with another release of Spark: `.venv/bin/python -m tools.older_spark [VERSION]`.

pyproject.toml allows every Spark 4, and the lock has the newest. This makes an environment inside
`.venv` that sees all of `.venv` but has the other release of pyspark, and runs `tests/spark` in it.
pip builds that release from a source package of some 450 MB, once.
"""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDER = "4.0.0"  # the lowest that pyproject.toml allows

# Spark 4.0 leaves sockets to the garbage collector; everything else is an error here as well.
_LENIENT = (
    "-W",
    "ignore::ResourceWarning",
    "-W",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def environment(version: str) -> Path:
    """The interpreter of the environment with this release, which is made if need be."""
    home = Path(sys.prefix) / f"spark-{version}"
    python = home / Path(sys.executable).relative_to(sys.prefix)
    done = home / "done"
    if not done.exists():
        print(f"installing pyspark {version} into {home}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        packages = {"base": sys.prefix, "platbase": sys.prefix}
        ours = sysconfig.get_path("purelib", vars=packages)
        theirs = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
        # After its own packages, so that its Spark is found before ours.
        (theirs / "below.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--ignore-installed", f"pyspark=={version}"], check=True)
        done.touch()
    return python


def main(arguments: Sequence[str]) -> int:
    version, *rest = arguments or [OLDER]
    if not re.fullmatch(r"4\.\d+\.\d+", version):
        print(
            f"older_spark: {version!r} is no release of Spark 4, such as {OLDER}", file=sys.stderr
        )
        return 2
    try:
        python = environment(version)
    except subprocess.CalledProcessError as error:
        print(f"older_spark: {error}", file=sys.stderr)
        return 1
    question = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()
    if found != version:
        print(f"older_spark: {python} has pyspark {found or 'nowhere'}", file=sys.stderr)
        return 1
    print(f"tests/spark with pyspark {found}", flush=True)
    tests = rest or ["tests/spark"]
    command = [str(python), "-m", "pytest", "-q", "--hypothesis-profile=ci", "-p", "no:xdist"]
    spark_leaves = ROOT / "artifacts"  # 4.0.0 makes it where it runs; the tests must leave nothing
    spark_leaves.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": ""}
    try:
        return subprocess.run(
            [*command, *_LENIENT, *tests], cwd=ROOT, env=env, check=False
        ).returncode
    finally:
        with suppress(OSError):  # if there is something in it, it stays to be seen
            spark_leaves.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
