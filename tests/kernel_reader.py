"""A reader of Delta tables with delta-kernel, in a process and an environment of its own: nothing of ours is imported.

Each line of the standard input is a JSON list, a path and a version or null; each line of output is the rows.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import duckdb


def main() -> None:
    connection = duckdb.connect()
    folder = Path(str(importlib.import_module("duckdb_extension_delta").__file__)).parent
    (extension,) = folder.glob("extensions/*/delta.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    print("ready", flush=True)
    for line in sys.stdin:
        path, version = json.loads(line)
        pinned = "" if version is None else f", version => {int(version)}"
        scanned = "delta_scan('{}'{})".format(path.replace("'", "''"), pinned)
        found = connection.execute(f"SELECT * FROM {scanned}")
        print(json.dumps([list(row) for row in found.fetchall()], default=str), flush=True)


if __name__ == "__main__":
    main()
