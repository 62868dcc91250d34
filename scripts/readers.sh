#!/usr/bin/env bash
# Make an environment of its own for another reader of Delta tables, for the tests of what a lake publishes, and print
# its Python on standard output. It lies in .venv/readers; exit 1, with the reason, if it cannot be made.
# Usage: scripts/readers.sh kernel|spark
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'readers: %s\n' "$*" >&2; }

# Tests in several processes ask for the same environment at once: one makes it, and the others wait.
mkdir -p .venv/readers
exec 9>.venv/readers/.lock
if command -v flock >/dev/null 2>&1; then flock 9; fi

# DuckDB's Delta extension is delta-kernel-rs. It is built for one version of DuckDB, which is older than ours.
kernel() {
  local version=1.5.5 place
  place=$(pwd -P)/.venv/readers/kernel-$version
  if [ ! -e "$place/.ready" ]; then
    say "making $place"
    rm -rf "$place"
    "${PYTHON:-python3}" -m venv "$place"
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check \
      "duckdb==$version" "duckdb-extension-delta==$version" >&2
    touch "$place/.ready"
  fi
  printf '%s\n' "$place/bin/python"
}

# delta-spark is built for one version of Spark, which is older than ours, so that it has a PySpark of its own. Its jars
# come by their coordinates, with Maven, and lie among those of that PySpark.
spark() {
  local version=4.4.0 spark=4.2.0 place jars
  place=$(pwd -P)/.venv/readers/delta-spark-$version
  if [ ! -e "$place/.ready" ]; then
    command -v mvn >/dev/null 2>&1 || { say "mvn (Apache Maven) is not installed; it fetches io.delta:delta-spark"; exit 1; }
    say "making $place (PySpark is some 450 MB: this takes minutes)"
    rm -rf "$place"
    "${PYTHON:-python3}" -m venv "$place"
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check "pyspark==$spark" >&2
    jars=$("$place/bin/python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
    say "fetching io.delta:delta-spark_2.13:$version"
    cat >"$place/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion><groupId>readers</groupId><artifactId>readers</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>io.delta</groupId><artifactId>delta-spark_2.13</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
    mvn -q -B -f "$place/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
      -DincludeGroupIds=io.delta,io.unitycatalog -DoutputDirectory="$jars" >&2
    touch "$place/.ready"
  fi
  printf '%s\n' "$place/bin/python"
}

case "${1:-}" in
kernel | spark) "$1" ;;
*)
  say "usage: scripts/readers.sh kernel|spark"
  exit 2
  ;;
esac
