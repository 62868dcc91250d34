"""Imports point downward only.

The layers stand in ``LAYERS``, highest first. A module may import from its own package and from the layers
below; packages that share a layer do not know each other. ``tidemark/__init__.py`` stands above all. The
engines stand above the algebra here, because they read plans; the algebra knows no engine.

Third-party libraries have their rooms too (``ROOMS``), and the Spark engine keeps to what Spark Connect
offers (``FORBIDDEN``). Every import counts, also one inside a function or under ``TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WHEEL, BENCHMARKS = ROOT / "src" / "tidemark", ROOT / "benchmarks" / "tidemark_bench"

LAYERS = (
    ("tidemark_bench",),  # the benchmarks: a distribution of their own, of which the wheel knows nothing
    ("",),  # the package tidemark itself
    ("cli", "client"),  # people and programs: they know the facade, and the protocols of the state
    ("session",),  # statements run, transactions, the commit as a tuple of phases
    ("answers",),  # questions about what is there; writes nothing
    ("changes",),  # who follows the log, how far each has come, what may be forgotten
    ("rules", "snapshots"),  # what reacts | what lags; each sees a transaction only through the state
    ("sources",),  # what comes from other systems
    ("state",),  # what is committed, what is pending, what a point of a transaction sees; events
    ("provenance",),  # why and why not, over any reader
    ("network",),  # which nodes, in what order
    ("strategy",),  # how one node is brought up to date for one block
    ("passes",),  # rewrites of plans and differentials, between those who derive them and those who run them
    ("analysis", "calculus", "sql"),
    ("datalog",),  # a view of SQL can be a program, and recursion in SQL becomes rules
    ("engines",),
    ("storage",),  # what engines share of storing; knows no SQL
    ("algebra",),
    ("errors",),
)
HEIGHT = {name: -depth for depth, names in enumerate(LAYERS) for name in names}

ROOMS = {
    # Spark's point reads run in DuckDB, and the benchmark's rival is SQL for DuckDB, written by hand.
    "duckdb": ("tidemark.engines.duckdb", "tidemark.engines.spark", "tidemark_bench"),
    "pyspark": ("tidemark.engines.spark",),
    "py4j": ("tidemark.engines.spark",),
    "deltalake": ("tidemark.engines.spark", "tidemark_bench.small", "tidemark_bench.pipeline_sides"),
    "obstore": ("tidemark.storage.bucket",),
    "sqlglot": ("tidemark.sql",),
    "lark": ("tidemark.datalog",),
    "typer": ("tidemark.cli", "tidemark_bench.main"),
    "rich": ("tidemark.cli",),
    "prompt_toolkit": ("tidemark.cli",),
    "z3": ("tidemark.analysis",),
    # Arrow goes from part to part.
    "pandas": (),
    "numpy": ("tidemark.storage", "tidemark.engines.local"),
}

FORBIDDEN = frozenset({"sparkContext", "_jvm", "_jsparkSession", "rdd"})

Sources = Mapping[str, str]
"""From the dotted name of a module to its text; a package's name ends with ``.__init__``."""


def sources_on_disk(*packages: Path) -> Sources:
    files = {file: package.parent for package in packages for file in sorted(package.rglob("*.py"))}
    return {".".join(file.relative_to(root).with_suffix("").parts): file.read_text() for file, root in files.items()}


def public_name(module: str) -> str:
    return module.removesuffix(".__init__")


def layer_of(module: str) -> str:
    """The first name below ``tidemark``, or "" for the package itself and its ``__main__``; all else is one layer."""
    parts = public_name(module).split(".")
    if parts[0] != "tidemark":
        return parts[0]
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else ""


def imports_of(module: str, tree: ast.Module, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Each imported module with its line: ``from p import m`` is an import of ``p.m`` if that is a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield node.lineno, inner if inner in known else origin


def layer_faults(module: str, line: int, target: str) -> Iterator[str]:
    if target.split(".")[0] not in ("tidemark", "tidemark_bench"):
        return
    above, below = layer_of(module), layer_of(target)
    if below not in HEIGHT:
        yield f"{module}:{line} imports {target}, which has no layer"
    elif above in HEIGHT and above != below and HEIGHT[below] >= HEIGHT[above]:
        relation = "its sibling" if HEIGHT[below] == HEIGHT[above] else "above it"
        yield f"{module}:{line} imports {target}, which is {relation}"


def room_faults(module: str, line: int, target: str) -> Iterator[str]:
    library = target.split(".")[0]
    if library in ROOMS and not in_room(module, ROOMS[library]):
        allowed = f"only {' and '.join(ROOMS[library])} may" if ROOMS[library] else "no module may"
        yield f"{module}:{line} imports {library}, which {allowed}"


def in_room(module: str, rooms: tuple[str, ...]) -> bool:
    """Whether a module is a room, inside one, or beside one under a longer name (``spark_lake``)."""
    return any(module == room or module.startswith((f"{room}.", f"{room}_")) for room in rooms)


def forbidden_faults(module: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in FORBIDDEN:
                yield f"{module}:{node.lineno} uses .{name}, which Spark Connect does not have"
            case ast.Constant(value=str(name)) if name in FORBIDDEN:  # getattr(session, "_jvm")
                yield f"{module}:{node.lineno} names {name!r}, which Spark Connect does not have"
            case _:
                pass


def cycle_faults(sources: Sources) -> Iterator[str]:
    known = frozenset(map(public_name, sources))
    graph = {
        public_name(module): {
            target
            for _, target in imports_of(module, ast.parse(text), known)
            if target in known and target != public_name(module)
        }
        for module, text in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "import cycle: " + " -> ".join(reversed(error.args[1]))


def faults(sources: Sources) -> list[str]:
    """Everything in these modules that breaks a rule of this page, in words."""
    known = frozenset(map(public_name, sources))
    found = []
    for module, text in sources.items():
        if layer_of(module) not in HEIGHT:
            found.append(f"{module} has no layer; give {layer_of(module)!r} a place in LAYERS")
        tree = ast.parse(text, filename=module)
        for line, target in imports_of(module, tree, known):
            found += layer_faults(module, line, target)
            found += room_faults(module, line, target)
        found += forbidden_faults(module, tree)
    return [*found, *cycle_faults(sources)]


def test_every_module_keeps_the_rules() -> None:
    sources = sources_on_disk(WHEEL, BENCHMARKS)
    assert {layer_of(module) for module in sources} == HEIGHT.keys(), "a layer has no module, or none has a layer"
    assert not (found := faults(sources)), "\n".join(found)


def test_no_module_of_the_wheel_is_a_benchmark() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/tidemark"]}
    assert not [module for module in sources_on_disk(WHEEL) if "bench" in module]
    assert "tidemark_bench.main" in sources_on_disk(BENCHMARKS)


ORACLE = "tidemark.engines.reference"
ALLOWED_THE_ORACLE = {
    "tidemark.session.connect": "makes its engine for whoever asks for it",
}
"""Who may import the oracle, and why; everybody else would be compared with itself."""


def test_the_oracle_stands_apart() -> None:
    sources = sources_on_disk(WHEEL)
    known = frozenset(map(public_name, sources))
    users = {
        public_name(module)
        for module, text in sources.items()
        if not public_name(module).startswith(ORACLE)
        for _, target in imports_of(module, ast.parse(text), known)
        if target.startswith(ORACLE)
    }
    assert users == ALLOWED_THE_ORACLE.keys()


def test_the_house_stays_small_enough_to_find_things_in() -> None:
    modules = [module for module in sources_on_disk(WHEEL)]
    rooms = Counter(layer_of(module) for module in modules)
    assert len(modules) <= 410
    assert max(rooms.values()) <= 60, rooms.most_common(1)
    several = Counter(module.split(".")[-1] for module in modules if not module.endswith("__init__"))
    # The same role in each engine, and in each part of the binder, has the same name.
    assert {name for name, times in several.items() if times > 3} <= SAME_ROLES, several.most_common(5)


SAME_ROLES = {"aggregates", "engine", "rules", "statements", "windows"}


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        ("tidemark.algebra.plans", "from tidemark.sql import bind", "above it"),
        ("tidemark.algebra.plans", "from ..sql import bind", "above it"),
        ("tidemark.algebra.__init__", "from ..sql import bind", "above it"),
        ("tidemark.algebra.plans", "def late():\n    import tidemark.storage.store", "above it"),
        ("tidemark.calculus.linear", "from tidemark import sql", "its sibling"),
        ("tidemark.cli.main", "import tidemark", "above it"),
        ("tidemark.session.facade", "from tidemark.surprise import x", "no layer"),
        ("tidemark.surprise", "", "no layer"),
        ("tidemark.cli.main", "from tidemark_bench import main", "above it"),
        ("tidemark.sql.binder", "import duckdb", "only tidemark.engines.duckdb"),
        ("tidemark.engines.duckdb.store", "from pyspark.sql import Row", "only tidemark.engines.spark"),
        ("tidemark.engines.sparkle", "import deltalake", "only tidemark.engines.spark"),
        ("tidemark.engines.spark.render", "import sqlglot.expressions", "only tidemark.sql"),
        ("tidemark.session.facade", "from rich.console import Console", "only tidemark.cli"),
        ("tidemark.engines.spark.stage", "import pandas as pd", "no module may"),
        ("tidemark.engines.spark.session", "session.sparkContext.stop()", "Spark Connect"),
        ("tidemark.engines.spark.session", "getattr(session, '_jvm')", "Spark Connect"),
        ("tidemark.engines.spark.session", "frame.rdd.map(f)", "Spark Connect"),
    ],
)
def test_an_offence_is_found(module: str, text: str, fault: str) -> None:
    found = faults({"tidemark.__init__": "", "tidemark.sql.__init__": "", module: text})
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("tidemark.__init__", "from tidemark.session import connect"),
        ("tidemark.cli.main", "import rich, typer\nfrom tidemark.session import connect"),
        ("tidemark_bench.rivals", "import duckdb\nfrom tidemark.session import connect"),
        ("tidemark.calculus.linear", "from tidemark.algebra.plans import Join\nfrom .terms import term"),
        ("tidemark.engines.duckdb.store", "import duckdb\nfrom tidemark.algebra.plans import Plan"),
        ("tidemark.engines.spark_reads", "import duckdb, deltalake, pyspark\nfrom tidemark.storage import Log"),
        ("tidemark.storage.store", "'''Nothing here uses sparkContext.'''\nimport pyarrow"),
    ],
)
def test_what_is_allowed_is_not_a_fault(module: str, text: str) -> None:
    assert faults({module: text}) == []


def test_a_cycle_is_found_within_one_layer() -> None:
    sources = {
        "tidemark.algebra.__init__": "",
        "tidemark.algebra.plans": "from tidemark.algebra import types",
        "tidemark.algebra.types": "from .expressions import Value",
        "tidemark.algebra.expressions": "def late():\n    from .plans import Plan",
    }
    (found,) = faults(sources)
    assert found.startswith("import cycle: ")
    assert "tidemark.algebra.plans" in found
