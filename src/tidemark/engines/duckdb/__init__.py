"""The embedded engine: DuckDB in this process, in memory or in one file."""

from tidemark.engines.duckdb.engine import DuckDBEngine

__all__ = ["DuckDBEngine"]
