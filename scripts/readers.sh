#!/usr/bin/env bash
# Make an environment of its own for another reader of Delta tables, for the tests of what a lake publishes, and print
# its Python on standard output. It lies in .venv/readers; exit 1, with the reason, if it cannot be made.
# Usage: scripts/readers.sh kernel
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'readers: %s\n' "$*" >&2; }

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

case "${1:-}" in
kernel) "$1" ;;
*)
  say "usage: scripts/readers.sh kernel"
  exit 2
  ;;
esac
