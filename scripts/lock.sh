#!/usr/bin/env bash
# Resolve the dependencies of pyproject.toml, for every supported Python and platform, into requirements.lock.
# Usage: scripts/lock.sh [python]
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

printf 'lock: fetching uv\n' >&2
"$python" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv

printf 'lock: resolving\n' >&2
{
  echo "# Every package that running and developing Tidemark needs, pinned for Python 3.11 to 3.13 on Linux and macOS."
  echo "# Made from pyproject.toml by \`make lock\`; do not edit by hand."
  "$tools/venv/bin/uv" pip compile pyproject.toml --quiet --extra dev --universal --python-version 3.11 \
    --fork-strategy fewest --upgrade \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links
} >"$tools/requirements.lock"
cp "$tools/requirements.lock" requirements.lock
printf 'lock: requirements.lock has %s packages\n' "$(grep -c '==' requirements.lock)" >&2
