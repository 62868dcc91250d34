"""Every code that the source uses has a family, and the page of errors lists the codes of each, once and in order."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidemark as tm
from tidemark.datalog.fixpoint import TooFar
from tidemark.errors import CODES, Place

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


def families() -> dict[str, list[str]]:
    """The codes of each family, in the order of the table."""
    found = dict[str, list[str]]()
    for code, family in CODES.items():
        found.setdefault(family.__name__, []).append(code)
    return found


def documented() -> dict[str, list[str]]:
    """The codes of each family, in the order of the page."""
    found = dict[str, list[str]]()
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        heading = re.match(r".*`(\w+)`$", section, flags=re.MULTILINE)
        assert heading, f"this section names no family: {section.splitlines()[0]}"
        found[heading[1]] = re.findall(r"^\| `([a-z_]+)` \|", section, flags=re.MULTILINE)
    return found


def test_every_code_of_the_source_has_a_family_and_no_other_has_one() -> None:
    assert used() == set(CODES)


def test_the_page_lists_the_codes_of_each_family_in_the_order_of_the_table() -> None:
    assert documented() == families()
    assert list(documented()) == list(families())


def test_every_family_can_be_caught_by_its_name() -> None:
    assert set(tm.TidemarkError.__subclasses__()) == set(CODES.values())
    assert {getattr(tm, name) for name in families()} == set(CODES.values())


@pytest.mark.parametrize("code", CODES)
def test_an_error_is_of_the_family_of_its_code(code: str) -> None:
    assert type(tm.TidemarkError(code, "words")) is CODES[code]
    assert type(tm.TidemarkError(code=code, message="words")) is CODES[code]


def test_a_class_of_its_own_stays_in_the_family_of_its_code() -> None:
    error = TooFar("path", rounds=3)
    assert type(error) is TooFar
    assert isinstance(error, CODES[error.code])


COPIES: list[Callable[[tm.TidemarkError], tm.TidemarkError]] = [
    copy.copy,
    copy.deepcopy,
    lambda error: pickle.loads(pickle.dumps(error)),
]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_and_pickles_have_the_family_and_all_that_is_told(
    copied: Callable[[tm.TidemarkError], tm.TidemarkError],
) -> None:
    error = tm.TidemarkError("check", "a row violates it", place=Place(1, 2, "SELECT"), hint="mend it")
    again = copied(error)
    assert type(again) is tm.ConstraintError
    assert str(again) == str(error)
    assert (again.code, again.message, again.place, again.hint) == (error.code, error.message, error.place, error.hint)


class TestTellingAnErrorAgain:
    ERROR = tm.TidemarkError("overflow", "300 does not fit", place=Place(1, 2, "SELECT"), hint="CAST")

    def test_within_puts_the_place_in_front_and_keeps_everything_else(self) -> None:
        error = self.ERROR.restated()
        error.__cause__ = cause = ValueError("300")
        told = error.within("column 'a'")
        assert type(told) is tm.EvaluationError
        assert (told.code, told.message) == ("overflow", "column 'a': 300 does not fit")
        assert (told.place, told.hint, told.__cause__) == (error.place, error.hint, cause)

    def test_restating_changes_what_is_given_alone(self) -> None:
        place = Place(3, 4, "VALUES")
        assert self.ERROR.restated(place=place).place == place
        assert self.ERROR.restated(hint="ask").hint == "ask"
        assert self.ERROR.restated("other words").message == "other words"
        assert str(self.ERROR.restated()) == str(self.ERROR)

    def test_a_place_can_be_left_out(self) -> None:
        told = self.ERROR.without_place()
        assert (told.message, told.place, told.hint) == ("300 does not fit", None, "CAST")
        assert self.ERROR.place is not None


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
