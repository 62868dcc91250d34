"""What may come next: keywords, relations and columns, guessed from the words before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_KEYWORDS: Final = """
    ADD ALL ALTER ANALYZE AND AS ASC AUDIT BEGIN BETWEEN BIGINT BOOLEAN BY CASCADE CASE CAST CHECK CHECKPOINT COALESCE
    COLUMN COMMIT COUNT CREATE DATE DECIMAL DEFAULT DELETE DESC DISTINCT DOUBLE DROP ELSE END EXISTS EXPLAIN EXTRACT
    FALSE FROM GROUP HAVING IF IN INNER INSERT INT INTO IS JOIN KEY LIKE LIMIT MATERIALIZED NOT NULL ON OR ORDER
    PRIMARY PUBLISH REPLACE ROLLBACK SELECT SET SHOW SMALLINT SUM TABLE TABLES THEN TIMESTAMP TRUE UNION UPDATE VALUES
    VARCHAR VERSION VERSIONS VIEW VIEWS WHEN WHERE WITH
    """
KEYWORDS: Final = tuple(_KEYWORDS.split())
COMMANDS_WITH_NAME: Final = ("d", "changes")

_LAST_WORD = re.compile(r'(?:(?P<owner>"[^"]+"|\w+)\.)?(?P<word>"[^"]*|\w*)$')
_BEFORE_RELATION = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|AUDIT|EXPLAIN|TABLE|VIEW)\s+$", re.IGNORECASE)
_NAMED = re.compile(
    r'\b(?:FROM|JOIN|INTO|UPDATE|,)\s*(?P<name>"[^"]+"|\w+)(?:\s+(?:AS\s+)?(?P<alias>\w+))?', re.IGNORECASE
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_BEFORE_QUESTION = re.compile(r"\bEXPLAIN\s+$", re.IGNORECASE)
QUESTIONS: Final = ("ANALYZE", "EFFECT", "WHY")

Names = Mapping[str, tuple[str, ...]]
"""The columns of each relation."""


@dataclass(frozen=True)
class Suggestion:
    """A word in place of the last ``length`` letters, and what it names."""

    text: str
    length: int
    kind: str


def suggestions(text: str, names: Names, after: str = "") -> list[Suggestion]:
    """The words that may stand where ``text`` ends, the likeliest first. ``after`` is what stands behind it.

    >>> [s.text for s in suggestions("select quantity from it", {"item": ("id", "quantity"), "supplier": ("id",)})]
    ['item']
    """
    if _is_quoted(text):
        return []
    found = _LAST_WORD.search(text)
    assert found is not None
    before, word = text[: found.start()], found["word"]
    candidates: Iterable[tuple[str, str]]
    if text.lstrip().startswith("\\"):
        is_name = before.strip()[1:] in COMMANDS_WITH_NAME
        candidates = ((name, "relation") for name in (names if is_name else ()))
    elif found["owner"] is not None:
        owner = _unquoted(found["owner"])
        relation = _aliases(text + after).get(owner, owner)
        candidates = ((column, "column") for column in names.get(relation, ()))
    else:
        candidates = _anything(before, word, text + after, names)
    unique = dict.fromkeys((c, kind) for c, kind in candidates if _matches(c, word))
    return [Suggestion(_written(c, kind, word), len(word), kind) for c, kind in unique]


def _anything(before: str, word: str, statement: str, names: Names) -> Iterator[tuple[str, str]]:
    """Relations where only they can stand; else the columns of the relations in the statement, and the rest."""
    relations = [(name, "relation") for name in names]
    if _BEFORE_RELATION.search(before):
        yield from relations
        if word and _BEFORE_QUESTION.search(before):
            yield from ((keyword, "keyword") for keyword in QUESTIONS)
        return
    used = [name for name in dict.fromkeys(_aliases(statement).values()) if name in names]
    yield from ((column, "column") for name in used for column in names[name])
    if not word:
        return  # everything would be too much
    yield from ((keyword, "keyword") for keyword in KEYWORDS)
    yield from relations
    yield from ((column, "column") for columns in names.values() for column in columns if not used)


def _aliases(statement: str) -> dict[str, str]:
    """The names by which the statement knows relations."""
    known: dict[str, str] = {}
    for found in _NAMED.finditer(statement):
        name = _unquoted(found["name"])
        known[name] = name
        if found["alias"] and found["alias"].upper() not in KEYWORDS:
            known[found["alias"].lower()] = name
    return known


def _is_quoted(text: str) -> bool:
    """Whether the text ends inside a string or a comment; what comes there cannot be guessed."""
    last_line = text.rpartition("\n")[2]
    return text.count("'") % 2 == 1 or "--" in last_line


def _matches(candidate: str, word: str) -> bool:
    return candidate.lower().startswith(word.lstrip('"').lower())


def _unquoted(name: str) -> str:
    return name[1:-1] if name.startswith('"') else name.lower()


def _written(candidate: str, kind: str, word: str) -> str:
    """A keyword in the case that was begun; a name in quotes if it needs them."""
    if kind == "keyword":
        return candidate.lower() if word[:1].islower() else candidate
    needs_quotes = word.startswith('"') or not _PLAIN.fullmatch(candidate)
    return f'"{candidate}"' if needs_quotes else candidate
