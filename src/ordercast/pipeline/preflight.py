"""One task on an executor before the work: does it have the Python and the packages of the driver?

The task needs nothing of ours there, so it can say that all of it is missing.
"""

import json
import platform
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ordercast.model.errors import ConfigError
from ordercast.model.version import __version__
from ordercast.pipeline.complaints import essence
from ordercast.pipeline.shipping import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Text, not a function of this module: that would be sent by its name, which leads nowhere there.
_TASK = """
def look():
    import importlib, json, platform, socket, sys
    found = {"python": platform.python_version(), "host": socket.gethostname(),
             "executable": sys.executable, "platform": platform.platform()}
    for name in ("ordercast.model.version", "pyarrow", "numpy", "pandas", "msgspec"):
        try:
            found[name.partition(".")[0]] = importlib.import_module(name).__version__
        except Exception as error:
            found[name.partition(".")[0]] = None
            found.setdefault("why", f"{type(error).__name__}: {error}".splitlines()[0])
    return json.dumps(found)
"""


def require_same(spark: "SparkSession", where: str) -> None:
    """Raises ConfigError with the cure where an executor cannot do our work; `where` names the
    cluster in it."""
    try:
        found = json.loads(_asked(spark))
    except Exception as error:
        raise ConfigError(f"{where}: {_cure_of_start(essence(str(error)))}") from None
    trouble = complaint(found)
    if trouble:
        raise ConfigError(f"{where}: {trouble}")


def complaint(found: dict[str, Any]) -> str:
    """The difference between the driver and an executor's report, with the cure; or nothing."""
    place = f"executor on {found['host']} ({found['executable']})"
    here = {"python": platform.python_version(), "ordercast": __version__,
            "pyarrow": pa.__version__, "msgspec": msgspec.__version__}  # fmt: skip
    missing = [n for n in ("ordercast", "pyarrow", "numpy", "pandas", "msgspec") if not found[n]]
    if missing:
        return (
            f"{place} has no {', '.join(missing)} ({found.get('why', 'not installed')}):"
            f" pip install 'ordercast[spark]=={__version__}' there, or leave out --conf {PYTHON}"
            f" where it runs {platform.system()} with Python {_minor(here['python'])}"
        )
    for name, ours in here.items():
        theirs = found[name]
        if theirs != ours and (name != "python" or _minor(theirs) != _minor(ours)):
            what = "Python" if name == "python" else name
            cure = (
                f"name a Python {_minor(ours)} of the executors by PYSPARK_PYTHON"
                if name == "python"
                else f"pip install {name}=={ours} there"
            )
            return f"{place} has {what} {theirs}, the driver {ours}: {cure}"
    return ""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _asked(spark: "SparkSession") -> str:
    from pyspark.sql import functions as sql

    space: dict[str, Any] = {"__name__": "__main__"}
    exec(_TASK, space)
    look = sql.udf(space["look"], "string", useArrow=False)
    row = spark.range(0, 1, 1, 1).select(look().alias("found")).first()
    return "" if row is None else str(row.found)


def _cure_of_start(why: str) -> str:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"an executor cannot run Python: {why}: name a Python {ours} of the executors by"
        f" PYSPARK_PYTHON, or one that has ordercast[spark] by --conf {PYTHON}=PYTHON"
    )
