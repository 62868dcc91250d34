#!/usr/bin/env bash
# Make .venv, or bring it up to date, with exactly what requirements.lock says and the packages of this repository in editable form.
# Usage: scripts/venv.sh [python]
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
stamp=.venv/.ready
here=$(pwd -P)

say() { printf 'setup: %s\n' "$*" >&2; }

# Python 3.11 or newer, or a sentence that says what to do.
require_python() {
  if ! command -v "$python" >/dev/null 2>&1; then
    say "'$python' was not found; Tidemark needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"
    exit 1
  fi
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "'$python' is $("$python" --version 2>&1); Tidemark needs Python 3.11 or newer: make PYTHON=python3.11"
    exit 1
  fi
}

# A .venv that was finished, for this folder, with a Python that still runs, can be updated in place.
usable() {
  [ "$(cat "$stamp" 2>/dev/null)" = "$here" ] &&
    .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

install() {
  say "installing the packages of requirements.lock (PySpark is some 450 MB: a first time takes minutes)" &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock &&
    say "installing tidemark itself and its benchmarks, in editable form" &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
      --no-deps --no-build-isolation --editable . --editable benchmarks
}

create() {
  require_python
  say "creating .venv with $("$python" --version 2>&1)"
  rm -rf .venv
  "$python" -m venv .venv
}

# The stamp goes first and comes back last, so that an interrupted setup starts over next time.
if usable; then
  say "updating .venv"
  rm -f "$stamp"
  install || { say "the update failed; starting over"; create; install; }
else
  create
  install
fi
printf '%s\n' "$here" >"$stamp"
say "done"
