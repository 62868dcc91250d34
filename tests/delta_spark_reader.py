"""A reader of Delta tables with delta-spark, in a process and an environment of its own: nothing of ours is imported.

Each line of the standard input is a JSON list, a path and a version or null; each line of output is the rows.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.extraJavaOptions": os.environ.get("TIDEMARK_JAVA_OPTIONS", ""),
}


def main() -> None:
    builder = SparkSession.builder.master("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        path, version = json.loads(line)
        reader = session.read.format("delta")
        frame = (reader if version is None else reader.option("versionAsOf", version)).load(path)
        print(json.dumps([list(row) for row in frame.collect()], default=str), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
