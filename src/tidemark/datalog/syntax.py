"""The syntax tree of a program: immutable, every part knows its place in the user's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidemark.algebra.expressions import Literal
from tidemark.errors import Place, TidemarkError


@dataclass(frozen=True)
class ProgramSource:
    """A program from ``start`` to ``end`` of a larger text. Offsets count in the whole text."""

    text: str
    start: int = 0
    end: int | None = None

    @property
    def program(self) -> str:
        return self.text[self.start : self.end]

    def place(self, span: Span) -> Place:
        begin = max(0, min(span.begin, len(self.text)))
        line = self.text.count("\n", 0, begin) + 1
        column = begin - (self.text.rfind("\n", 0, begin) + 1) + 1
        line_end = self.text.find("\n", begin)
        rest = (len(self.text) if line_end < 0 else line_end) - begin
        return Place(line, column, self.text, max(1, min(span.end - span.begin, rest)))

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> TidemarkError:
        return TidemarkError(code, message, place=self.place(span), hint=hint)


@dataclass(frozen=True)
class Span:
    """From where to where in the whole text, the end exclusive."""

    begin: int
    end: int


@dataclass(frozen=True)
class Variable:
    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Wildcard:
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Constant:
    literal: Literal
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Operation:
    """Arithmetic: the name of a function of the function table, and its one or two arguments."""

    function: str
    arguments: tuple[Term, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True)
class AggregateTerm:
    """``sum(y)`` in a head; ``count(*)`` has no argument."""

    function: str
    argument: Term | None
    span: Span = field(compare=False)


Term: TypeAlias = "Variable | Wildcard | Constant | Operation | AggregateTerm"


@dataclass(frozen=True)
class Atom:
    predicate: str
    terms: tuple[Term, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Negated:
    atom: Atom
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Comparison:
    """The name of a comparison of the function table between two terms."""

    function: str
    left: Term
    right: Term
    span: Span = field(compare=False)


BodyPart: TypeAlias = "Atom | Negated | Comparison"


@dataclass(frozen=True)
class Clause:
    """``head :- body.``, or a fact if the body is empty. ``number`` counts the clauses of the program from 1."""

    number: int
    head: Atom
    body: tuple[BodyPart, ...]
    text: str = field(compare=False)
    span: Span = field(compare=False)

    def __str__(self) -> str:
        """How errors name it: by number and text, on one line and shortened."""
        line = " ".join(self.text.split())
        return f"clause {self.number} ({line if len(line) <= 70 else line[:67] + '...'})"

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(part for part in self.body if isinstance(part, Atom))

    @property
    def negated(self) -> tuple[Atom, ...]:
        return tuple(part.atom for part in self.body if isinstance(part, Negated))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(part for part in self.body if isinstance(part, Comparison))

    @property
    def aggregates(self) -> bool:
        return any(isinstance(term, AggregateTerm) for term in self.head.terms)


@dataclass(frozen=True)
class ProgramText:
    """A program as it was written."""

    clauses: tuple[Clause, ...]
    source: ProgramSource = field(compare=False)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The defined predicates, in the order of their first clause."""
        return tuple(dict.fromkeys(clause.head.predicate for clause in self.clauses))

    def clauses_of(self, predicate: str) -> tuple[Clause, ...]:
        return tuple(clause for clause in self.clauses if clause.head.predicate == predicate)

    def needed_by(self, predicate: str) -> ProgramText:
        """The program without clauses that say nothing about a predicate."""
        needed, waiting = {predicate}, [predicate]
        while waiting:
            clauses = self.clauses_of(waiting.pop())
            found = {atom.predicate for clause in clauses for atom in (*clause.atoms, *clause.negated)} - needed
            needed |= found
            waiting += found
        return replace(self, clauses=tuple(clause for clause in self.clauses if clause.head.predicate in needed))


def variables_of(part: BodyPart | Term | None) -> Iterator[Variable]:
    """The variables of a part, from left to right, as often as they occur."""
    match part:
        case Variable():
            yield part
        case Operation(arguments=arguments) | Atom(terms=arguments):
            for argument in arguments:
                yield from variables_of(argument)
        case AggregateTerm(argument=argument):
            yield from variables_of(argument)
        case Negated(atom=atom):
            yield from variables_of(atom)
        case Comparison(left=left, right=right):
            yield from variables_of(left)
            yield from variables_of(right)
        case _:
            return
