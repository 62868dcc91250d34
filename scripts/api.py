"""Compare the public API of two revisions: ``scripts/api.py OLD [NEW]`` prints what breaks, or that nothing does.

NEW is the working tree unless it is named. Public is what ``tidemark`` and ``tidemark.client`` export, with the public
methods and attributes of the classes among it, wherever they are defined; not the constructors of what only a database
makes, nor the values of constants. Griffe says what breaks; it is fetched into a
virtual environment that is thrown away. The exit code is 1 if something breaks.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
GRIFFE = "griffe>=1.7,<2"
COMPARE = """
import re
import sys
import griffe


def plain(text):
    return re.sub(r"\\x1b\\[[0-9;]*m", "", text)


old, new = (griffe.load("tidemark", search_paths=[path], resolve_aliases=True) for path in sys.argv[1:])
broken = []
for name in ("", "client."):
    before, after = (found["client"] if name else found for found in (old, new))
    for export in before.exports or ():
        if export not in (after.exports or ()):
            broken.append(f"tidemark.{name}{export}: is no longer exported")
            continue
        here, there = before[str(export)], after[str(export)]
        here, there = (one.final_target if one.is_alias else one for one in (here, there))
        if here.kind != there.kind:
            broken.append(f"tidemark.{name}{export}: was a {here.kind.value}, is a {there.kind.value}")
        elif here.is_class or here.is_module:
            broken += [f"tidemark.{name}{export}: {b.explain(griffe.ExplanationStyle.ONE_LINE)}"
                       for b in griffe.find_breaking_changes(here, there)]
        elif here.is_function:
            broken += [f"tidemark.{name}{export}: {b.explain(griffe.ExplanationStyle.ONE_LINE)}"
                       for b in griffe.diff._function_incompatibilities(here, there)]
made = tuple(f"{name}.__init__(" for name in ("Database", "Results", "Subscription", "Transaction"))
broken = [plain(one) for one in broken if "value was changed" not in one]
broken = [one for one in broken if not any(call in one for call in made)]
print("\\n".join(broken) or "no breaking change")
sys.exit(bool(broken))
"""


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: scripts/api.py OLD [NEW]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        old, *new = [_source(revision, place / str(number)) for number, revision in enumerate(arguments)]
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", GRIFFE], check=True)
        return subprocess.run([python, "-c", COMPARE, old, *(new or [ROOT / "src"])]).returncode


def _source(revision: str, folder: Path) -> Path:
    """The sources of a revision."""
    folder.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", revision, "src"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder / "src"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
