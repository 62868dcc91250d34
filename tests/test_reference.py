"""The reference pages are complete: every public name, every command and every option stands there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import typer

import tidemark as tm
from tidemark.cli.main import app
from tidemark_bench.main import app as bench

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS["bench"] = typer.main.get_command(bench)  # that of the distribution which the command hands over to


def section(command: str) -> str:
    """The part of the page of the command line that is about one command."""
    page = (REFERENCE / "cli.md").read_text()
    found = re.search(rf"^## `tidemark {command}\b.*?(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/cli.md has no section for tidemark {command}"
    return found[0]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented_with_its_arguments_and_options(command: str) -> None:
    text = section(command)
    heading = text.splitlines()[0]
    options = set(re.findall(r"^\| `(--[a-z-]+)` \|", text, flags=re.MULTILINE))
    parameters = [p for p in COMMANDS[command].params if p.name != "help"]
    assert options == {opt for p in parameters if p.param_type_name == "option" for opt in p.opts}
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            assert parameter.metavar in heading


def test_no_command_is_documented_that_does_not_exist() -> None:
    page = (REFERENCE / "cli.md").read_text()
    assert set(re.findall(r"^## `tidemark ([a-z]+)", page, flags=re.MULTILINE)) == set(COMMANDS)


def test_every_public_name_is_documented() -> None:
    page = (REFERENCE / "python.md").read_text()
    prefixes = {tm.Database: "db", tm.Transaction: "tx", tm.Subscription: "subscription"}
    wanted = {
        f"{prefix}.{name}"
        for kind, prefix in prefixes.items()
        for name, _ in inspect.getmembers(kind, lambda m: inspect.isfunction(m) or isinstance(m, property))
        if not name.startswith("_")
    }
    undocumented = wanted - set(re.findall(r"\b(?:db|tx|subscription)\.[a-z_]+", page))
    assert undocumented <= INNER
    assert all(name in page for name in tm.__all__)


INNER = {
    *("tx.bring", "tx.run", "tx.guarded_run", "tx.fetch", "tx.doom", "tx.must_not_be_doomed"),
    *("tx.call", "tx.change", "tx.redefine", "tx.derived_deltas", "tx.evaluate", "tx.read", "tx.keep", "tx.tick"),
    *("tx.compared", "tx.receive", "tx.note", "tx.once"),
    *("tx.reactions", "tx.has_reactions", "tx.pending"),
    *(
        "tx.finish",
        "tx.must_not_be_doomed",
        "tx.is_open",
        "tx.is_committed",
        "db.leave",
        "tx.derived_wave",
        "tx.run_all",
    ),
}
"""Methods that the database uses itself."""


def test_the_signature_of_connect_is_documented() -> None:
    page = (REFERENCE / "python.md").read_text()
    documented = re.search(r"^### `tm\.connect\((.*)\)`$", page, flags=re.MULTILINE)
    assert documented
    names = [part.partition("=")[0].strip() for part in documented[1].split(",")]
    assert [name for name in names if name != "*"] == list(inspect.signature(tm.connect).parameters)


def test_the_architecture_page_names_every_room_and_no_module_that_is_gone() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for path in (ROOT / "src" / "tidemark").glob("*/__init__.py")}
    assert set(re.findall(r"^### `([a-z]+)`", page, flags=re.MULTILINE)) == packages
    modules = {path.name for path in (ROOT / "src" / "tidemark").rglob("*.py")}
    assert {Path(name).name for name in re.findall(r"`([a-z_/]+\.py)`", page)} <= modules | {
        "test_layers.py",
        "test_interruptions.py",
    }


LINK = re.compile(r"\[[^]]*\]\((?!https?:)([^)#]+)")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    dead = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not dead
