"""Print the way that one transaction takes through the code: ``scripts/walk.py update``.

The ways are ``update`` (one row under two views), ``create-view``, ``detached-rule`` (an update after which a rule acts
in a transaction of its own) and ``open`` (a database in a file), all on DuckDB. Each is gone some times before it is
watched, so that what is printed is what happens every time: the phases of the commit in order, the modules in the order
in which they were first entered, with the number of calls, and counts. A change of package is a call from one package
of Tidemark to another, also through a library. Comprehensions belong to the functions that they stand in.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import tidemark as tm
from tidemark.session import commit

SOURCE = Path(tm.__file__).parent
PHASES = ("PREPARE", "INSTALL")
"""The tuples of functions in ``tidemark.session.commit``."""
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"})
WARM = 3
"""How often a way is gone before it is watched."""

SALES = ", ".join(f"({number}, {1 + number % 3}, {number})" for number in range(1, 101))
TABLES = f"""
    CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR, town VARCHAR);
    CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount DECIMAL(12,2));
    INSERT INTO customer VALUES (1, 'Ada', 'Bonn'), (2, 'Ben', 'Bern'), (3, 'Cid', 'Bonn');
    INSERT INTO sale VALUES {SALES};
"""
VIEWS = """
    CREATE MATERIALIZED VIEW total AS
        SELECT c.town, COUNT(*) AS sales, SUM(s.amount) AS amount
        FROM sale s JOIN customer c ON c.id = s.customer GROUP BY c.town;
    CREATE MATERIALIZED VIEW large AS SELECT town FROM total WHERE amount > 1000;
"""
RULE = """
    CREATE TABLE letter (sale INT, amount DECIMAL(12,2));
    CREATE RULE letter_rule WHEN SELECT id, amount FROM sale WHERE amount > 1000
        DO INSERT INTO letter SELECT id, amount FROM condition WITH (action_coupling = 'detached');
    ACTIVATE RULE letter_rule;
"""

Way = Callable[[int], object]
"""Goes it, given how often it was gone before."""


@dataclass
class Walk:
    """What was called, in all threads that the way goes through."""

    phases: dict[CodeType, str]
    order: list[str] = field(default_factory=list)
    """The phases as they were entered; one inside another is indented."""
    modules: Counter[str] = field(default_factory=Counter)
    functions: set[CodeType] = field(default_factory=set)
    changes: int = 0
    _depth: int = 0

    def watch(self, frame: FrameType, event: str, argument: object) -> None:
        """Take note of a call or a return; the signature is that of ``sys.setprofile``."""
        code = frame.f_code
        if event == "return" and code in self.phases:
            self._depth -= 1
        if event != "call" or code.co_name in COMPREHENSIONS:
            return
        module = _module(code)
        if module is None:
            return
        if code in self.phases:
            self.order.append("  " * self._depth + self.phases[code])
            self._depth += 1
        self.modules[module] += 1
        self.functions.add(code)
        caller = _caller(frame)
        self.changes += caller is not None and _package(caller) != _package(module)

    def by_package(self) -> Iterator[tuple[str, list[str]]]:
        """Each package with its modules, both in the order of first entry."""
        found: dict[str, list[str]] = {}
        for module in self.modules:
            found.setdefault(_package(module), []).append(module)
        yield from found.items()

    def outside_algebra(self) -> int:
        return sum(_package(module) != "algebra" for module in self.modules)


_names: dict[str, str | None] = {}


def _module(code: CodeType) -> str | None:
    """The name of the module without ``tidemark.``, or none if the code is not Tidemark's."""
    if code.co_filename not in _names:
        path = Path(code.co_filename)
        inside = path.is_relative_to(SOURCE)
        _names[code.co_filename] = ".".join(path.relative_to(SOURCE).with_suffix("").parts) if inside else None
    return _names[code.co_filename]


def _package(module: str) -> str:
    return module.split(".")[0]


def _caller(frame: FrameType) -> str | None:
    """The nearest module of Tidemark up the stack."""
    above = frame.f_back
    while above is not None:
        if (module := _module(above.f_code)) is not None:
            return module
        above = above.f_back
    return None


def _phases() -> dict[CodeType, str]:
    """The code of each phase, with its name."""
    return {phase.__code__: f"{group}.{phase.__name__}" for group in PHASES for phase in getattr(commit, group)}


@contextmanager
def _watched() -> Iterator[Walk]:
    walk = Walk(_phases())
    threading.setprofile(walk.watch)
    sys.setprofile(walk.watch)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _update(stack: ExitStack) -> Way:
    db = stack.enter_context(tm.connect("duckdb"))
    db.execute(TABLES + VIEWS)
    return lambda time: db.execute(f"UPDATE sale SET amount = {200 + time} WHERE id = 7")


def _create_view(stack: ExitStack) -> Way:
    db = stack.enter_context(tm.connect("duckdb"))
    db.execute(TABLES + VIEWS)
    return lambda time: db.execute(
        f"CREATE MATERIALIZED VIEW best_{time} AS SELECT customer, MAX(amount) AS most FROM sale GROUP BY customer"
    )


def _detached_rule(stack: ExitStack) -> Way:
    db = stack.enter_context(tm.connect("duckdb"))
    db.execute(TABLES + VIEWS + RULE)

    def go(time: int) -> None:
        db.execute(f"UPDATE sale SET amount = {2000 + time} WHERE id = 7")
        db.run_due()
        if db.query("SELECT * FROM letter").num_rows != time + 1:
            raise RuntimeError("the detached rule has not acted")

    return go


def _open(stack: ExitStack) -> Way:
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "walk.duckdb"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute(TABLES + VIEWS)
    opened: list[tm.Database] = []
    stack.callback(lambda: opened[-1].close())

    def go(time: int) -> None:
        opened.append(tm.connect(f"duckdb:{path}"))
        if time < WARM:
            opened[-1].close()

    return go


WAYS: dict[str, Callable[[ExitStack], Way]] = {
    "update": _update,
    "create-view": _create_view,
    "detached-rule": _detached_rule,
    "open": _open,
}


def walk_of(name: str) -> Walk:
    """Go one way when it is warm, and watch it."""
    with ExitStack() as stack:
        go = WAYS[name](stack)
        for time in range(WARM):
            go(time)
        with _watched() as walk:
            go(WARM)
    return walk


def show(name: str, walk: Walk) -> str:
    """What is printed, ending in the line of counts."""
    lines = [f"The way of: {name}", "", "Phases:"]
    lines += [f"  {phase}" for phase in walk.order] or ["  none"]
    lines += ["", "Modules, in the order of first entry, with the number of calls:"]
    for package, modules in walk.by_package():
        lines.append(f"  {package}  ({len(modules)} modules, {sum(walk.modules[m] for m in modules)} calls)")
        lines += [f"    {walk.modules[module]:6}  {module}" for module in modules]
    counts = (
        f"{len(walk.order)} phases, {len(walk.functions)} functions, {len(walk.modules)} modules, "
        f"{walk.outside_algebra()} modules outside algebra, {walk.changes} changes of package"
    )
    return "\n".join([*lines, "", f"{name}: {counts}"])


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in WAYS:
        print(f"usage: scripts/walk.py {' | '.join(WAYS)}", file=sys.stderr)
        return 2
    print(show(arguments[0], walk_of(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
