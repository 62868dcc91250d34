"""The page of errors lists every code that the source uses, once, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "errors.md"
CODE = re.compile(r"[a-z]+(_[a-z]+)*")
MAKERS = ("TidemarkError", "error", "__init__")
"""``TidemarkError(code, …)``, ``source.error(code, …)`` and ``super().__init__(code, …)`` of an error of its own class;
other methods of the second name take sentences."""


def codes_in(text: str) -> Iterator[str]:
    """The codes that a module gives to errors as literals."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and _name(node.func) in MAKERS:
            yield from (code for code in _constants(node.args[0]) if CODE.fullmatch(code))


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _constants(argument: ast.expr) -> Iterator[str]:
    match argument:
        case ast.Constant(value=str(code)):
            yield code
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _constants(body)
            yield from _constants(otherwise)


def used() -> set[str]:
    files = (ROOT / "src" / "tidemark").rglob("*.py")
    return {code for file in files for code in codes_in(file.read_text())}


def listed() -> list[str]:
    return re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(), flags=re.MULTILINE)


def test_every_code_of_the_source_is_documented() -> None:
    assert not (used() - set(listed()))


def test_every_documented_code_is_used() -> None:
    assert not (set(listed()) - used())


def test_no_code_is_documented_twice() -> None:
    assert len(listed()) == len(set(listed()))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('raise TidemarkError("one_code", f"words {x}")', ["one_code"]),
        ('raise self.source.error("a" if x else "b", "words", node)', ["a", "b"]),
        ('raise cursor.error("VIEW is missing here")', []),
        ("raise TidemarkError(error.code, error.message)", []),
        ('logger.warning("words")', []),
    ],
)
def test_codes_are_found_in_a_module(text: str, codes: list[str]) -> None:
    assert list(codes_in(text)) == codes
