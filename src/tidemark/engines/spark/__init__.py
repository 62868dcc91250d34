"""The Spark engine: plans run on Apache Spark, relations are Delta tables in a lake folder."""

from tidemark.engines.spark.engine import SparkEngine
from tidemark.engines.spark.session import Options, local_session

__all__ = ["Options", "SparkEngine", "local_session"]
