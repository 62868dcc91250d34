"""From a round with a wrong answer to a short one, and to a script that shows it without this package."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from tests.hunt.playing import Finding, play
from tests.hunt.steps import Ask, Checkpoint, Define, Load, Reopen, Round, Run, Step

SECONDS: Final = 60.0
_OPENED: Final = {
    "reference": "tm.connect('reference')",
    "duckdb": "tm.Database(DuckDBEngine(folder + '/file.db'))",
    "statements": "tm.Database(DuckDBEngine(folder + '/file.db', by_statements=True, gather_at=3))",
    "spark": "tm.Database(SparkEngine(folder + '/lake'))",
    "forced": "tm.Database(SparkEngine(folder + '/lake', **ON_SPARK))",
}


def shrunk(round_: Round, engine: str, finding: Finding) -> tuple[Round, Finding]:
    """The round without the steps that the wrong answer does not need, as far as that is found in a minute."""
    end = time.monotonic() + SECONDS
    steps = round_.steps[: finding.step + 1]
    place = len(steps) - 2
    while place >= 0 and time.monotonic() < end:
        fewer = steps[:place] + steps[place + 1 :]
        found = play(replace(round_, steps=fewer), engine)
        if found is not None:
            steps, finding = fewer[: found.step + 1], found
        place = min(place, len(steps) - 1) - 1
    return replace(round_, steps=steps), finding


def script(round_: Round, engine: str, finding: Finding) -> str:
    """A script that runs the steps on the engine and says what it should have answered."""
    steps = round_.steps
    lines = [
        "import tempfile",
        "import tidemark as tm",
        "from tidemark.engines.duckdb import DuckDBEngine",
        "from tidemark.engines.spark import SparkEngine",
        "from tidemark.engines.spark.session import ON_SPARK",
        "folder = tempfile.mkdtemp()",
        f"db = {_OPENED[engine]}",
        f"db.execute({round_.schema!r})",
    ]
    last = steps[-1]
    # What is asked last is printed, and not asked before: the answer may be another one the second time.
    for step in steps[:-1] if isinstance(last, Ask) else steps:
        lines += _lines(step, engine)
    wrong = [f"# {line}" for line in f"Wrong here: {finding}".splitlines()]
    views = [step for step in steps if isinstance(step, Define)]
    asked = [f"print(db.query({last.query!r}).to_pylist())"] if isinstance(last, Ask) else []
    asked += [f"print('{v.name}', db.query('SELECT * FROM {v.name}').to_pylist())" for v in views]
    asked += [f"print(db.audit('{v.name}').to_pylist())" for v in views if v.how != "EXTERNAL VIEW"]
    return "\n".join([*lines, *wrong, *asked, "db.close()"])


_READ = "for table in db._store.catalog.tables: db.query(f'SELECT * FROM {table.name}')"
"""What was changed is read at once, as it was compared when the answer was wrong: what is stored follows then."""


def _lines(step: Step, engine: str) -> list[str]:
    match step:
        case Run(texts=texts):
            changes = (f"    transaction.execute({text!r})" for text in texts)
            return ["with db.transaction() as transaction:", *changes, _READ]
        case Load(first=first, count=count, groups=groups):
            return [f"db.insert('p', [(n, n % {groups}) for n in range({first}, {first + count})])", _READ]
        case Define():
            return [f"db.execute({step.text!r})"]
        case Ask(query=query):
            return [f"db.query({query!r})"]
        case Reopen() if engine != "reference":
            return ["db.close()", f"db = {_OPENED[engine]}"]
        case Checkpoint() if engine in ("duckdb", "statements"):
            return ["db._store.engine._connection.execute('CHECKPOINT')"]
        case Checkpoint() if engine != "reference":
            merged = "for name in [table.name for table in db._store.catalog.tables]: db._store.engine.merge(name)"
            return [merged]
    return []
