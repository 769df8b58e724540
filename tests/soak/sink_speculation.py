"""Soak campaign: the sink where Spark runs slow tasks twice at the same time, on two workers of a
standalone cluster. Nothing is doubled, and nothing is lost."""

import sys
import tempfile
from pathlib import Path

from support.clusters.sink_tasks import STAGED, TasksCase, run_sink_tasks
from support.harness.spark_cluster import spark_cluster
from tools.soak.campaign import Outcome

CASE_S = 120
BATCHES = 10
SECOND = 3  # attempts beside the first, at least, that have staged their rows
CONF = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}


def run(seed: int) -> Outcome:
    """The seed is not used: Spark schedules tasks as it likes."""
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        folder = Path(place)
        with spark_cluster(folder, workers=2, hosts_apart=True) as cluster:
            case = TasksCase(
                "ordercast_slow", BATCHES, tasks=20, rows=200, master=cluster.master, conf=CONF
            )
            wrong, counts = run_sink_tasks(folder, case)
    second = counts[f"{STAGED} by a later attempt"]
    if second < SECOND:
        wrong.append(f"Spark ran only {second} tasks twice (case {seed})")
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
