"""The grammar, and from text to the syntax tree.

    program    := clause*
    clause     := head [":-" part ("," part)*] "."
    part       := predicate "(" term, … ")" | "not" predicate "(" term, … ")" | term comparison term
    comparison := "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="
    term       := variable | constant | "_" | arithmetic with + - * / % and parentheses
                | in a head: ("count" | "sum" | "min" | "max") "(" term ")" | "count" "(" "*" ")"

Lower-case names are variables. A constant is a number, a text in quotes, TRUE, FALSE, DATE '…' or TIMESTAMP '…'.
Comments are those of SQL. The grammar that lark gets is wider, so that mistakes are told in words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from tidemark.algebra.expressions import Literal
from tidemark.algebra.text import number, read_text
from tidemark.algebra.types import BOOLEAN, DATE, TIMESTAMP, VARCHAR
from tidemark.datalog.syntax import (
    AggregateTerm,
    Atom,
    BodyPart,
    Clause,
    Comparison,
    Constant,
    Negated,
    Operation,
    ProgramSource,
    ProgramText,
    Span,
    Term,
    Variable,
    Wildcard,
)
from tidemark.errors import TidemarkError, too_complex

GRAMMAR = r"""
start: clause*
clause: sum [":-" part ("," part)*] "."
part: "not"i sum -> negated
    | sum        -> plain
    | sum COMPARISON sum -> comparison
?sum: product
    | sum ADDING product -> operation
?product: unary
    | product MULTIPLYING unary -> operation
?unary: primary
    | MINUS unary -> negative
?primary: NUMBER -> number
    | TEXT       -> text
    | QUOTED     -> text
    | NAME       -> name
    | NAME TEXT  -> typed
    | NAME "(" [argument ("," argument)*] ")"   -> call
    | QUOTED "(" [argument ("," argument)*] ")" -> call
    | "(" sum ")"
?argument: sum
    | STAR -> star
COMPARISON: "<=" | ">=" | "<>" | "!=" | "=" | "<" | ">"
ADDING: "+" | MINUS
MULTIPLYING: STAR | "/" | "%"
MINUS: "-"
STAR: "*"
NUMBER: /(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?/
TEXT: /'([^']|'')*'/
QUOTED: /"([^"]|"")*"/
NAME: /[^\W\d]\w*/
COMMENT: /--[^\n]*/ | /\/\*(.|\n)*?\*\//
%import common.WS
%ignore WS
%ignore COMMENT
"""

AGGREGATES = ("count", "sum", "min", "max")
_OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "modulo"}
_COMPARISONS = {"=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_TYPED = {"date": DATE, "timestamp": TIMESTAMP}


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(source: ProgramSource | str) -> ProgramText:
    """The syntax tree of a program.

    >>> program = parse("closure(x, y) :- edge(x, z), closure(z, y).")
    >>> [atom.predicate for atom in program.clauses[0].atoms]
    ['edge', 'closure']
    """
    source = ProgramSource(source) if isinstance(source, str) else source
    try:
        tree = _parser().parse(source.program)
        clauses = _Reader(source).transform(tree)
    except UnexpectedInput as error:
        raise _syntax_error(error, source) from error
    except VisitError as error:
        raise error.orig_exc from None
    except RecursionError as error:
        raise too_complex() from error
    if not clauses:
        whole = Span(source.start, source.start)
        raise source.error("syntax", "the program has no clause", whole, hint="p(x, y) :- r(x, y).")
    return ProgramText(clauses, source)


def _syntax_error(error: UnexpectedInput, source: ProgramSource) -> TidemarkError:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        begin = source.start + int(error.token.start_pos or 0)
        return source.error(
            "syntax",
            f"{str(error.token)!r} cannot stand here",
            Span(begin, begin + len(error.token)),
            hint="a clause is head :- part, part. with a full stop at its end",
        )
    if isinstance(error, UnexpectedCharacters):
        begin = source.start + int(error.pos_in_stream or 0)
        quote = source.text[begin : begin + 1] in "'\""
        hint = "is a quote left open?" if quote else "texts stand in quotes; comments begin with --"
        return source.error("syntax", f"{source.text[begin]!r} cannot stand here", Span(begin, begin + 1), hint=hint)
    assert isinstance(error, UnexpectedEOF | UnexpectedToken)
    end = source.start + len(source.program.rstrip())
    return source.error(
        "syntax",
        "the program ends inside a clause",
        Span(max(source.start, end - 1), end),
        hint="end it with a full stop",
    )


class _Call:
    """``name(arguments)``, before it is known whether it is an atom or an aggregate."""

    def __init__(self, name: str, arguments: tuple[Any, ...], span: Span, quoted: bool) -> None:
        self.name, self.arguments, self.span, self.quoted = name, arguments, span, quoted


class _Star:
    def __init__(self, span: Span) -> None:
        self.span = span


@v_args(meta=True)
class _Reader(Transformer[Token, tuple[Clause, ...]]):
    """From lark's tree to ours, bottom up."""

    def __init__(self, source: ProgramSource) -> None:
        super().__init__()
        self.source = source
        self.count = 0

    def _span(self, meta: Any) -> Span:
        return Span(self.source.start + meta.start_pos, self.source.start + meta.end_pos)

    # Terms

    def number(self, meta: Any, children: list[Token]) -> Term:
        return Constant(self._literal_number(str(children[0]), self._span(meta)), self._span(meta))

    def _literal_number(self, text: str, span: Span) -> Literal:
        try:
            return number(text)
        except TidemarkError as error:
            raise error.restated(place=self.source.place(span)) from error

    def text(self, meta: Any, children: list[Token]) -> Term:
        return Constant(Literal(_unquoted(children[0]), VARCHAR), self._span(meta))

    def typed(self, meta: Any, children: list[Token]) -> Term:
        name, text, span = str(children[0]).lower(), _unquoted(children[1]), self._span(meta)
        if name not in _TYPED:
            raise self.source.error("syntax", f"{children[0]} before a text is no type", span, hint="DATE '2024-01-31'")
        try:
            return Constant(Literal(read_text(text, _TYPED[name]), _TYPED[name]), span)
        except TidemarkError as error:
            raise error.restated(place=self.source.place(span)) from error

    def name(self, meta: Any, children: list[Token]) -> Term:
        name, span = str(children[0]), self._span(meta)
        if name == "_":
            return Wildcard(span)
        match name.lower():
            case "true" | "false":
                return Constant(Literal(name.lower() == "true", BOOLEAN), span)
            case "null":
                raise self.source.error(
                    "syntax", "NULL is no constant", span, hint="NULL never joins; write _ for any value"
                )
            case "not":
                raise self.source.error("syntax", "not is no variable", span, hint="not p(x) negates an atom")
        if name != name.lower():
            hint = f"lower-case names are variables: {name.lower()}; a constant is quoted: '{name}'"
            raise self.source.error("syntax", f"{name!r} is neither a variable nor a constant", span, hint=hint)
        return Variable(name, span)

    def star(self, meta: Any, children: list[Token]) -> _Star:
        return _Star(self._span(meta))

    def call(self, meta: Any, children: list[Any]) -> _Call:
        name, *arguments = children
        quoted = name.type == "QUOTED"
        text = _unquoted(name) if quoted else str(name).lower()
        return _Call(text, tuple(arguments), self._span(meta), quoted)

    def negative(self, meta: Any, children: list[Any]) -> Term:
        argument, span = self._term(children[1]), self._span(meta)
        if isinstance(argument, Constant) and str(self.source.text[argument.span.begin]) in ".0123456789":
            text = self.source.text[argument.span.begin : argument.span.end]
            return Constant(self._literal_number("-" + text, span), span)
        return Operation("negate", (argument,), span)

    def operation(self, meta: Any, children: list[Any]) -> Term:
        left, operator, right = children
        return Operation(_OPERATORS[str(operator)], (self._term(left), self._term(right)), self._span(meta))

    def _term(self, found: Any) -> Term:
        """Something that stands as a value: no call, since calls are atoms and aggregates of heads."""
        if isinstance(found, _Star | _Call):
            raise self._misplaced(found)
        assert isinstance(found, Variable | Wildcard | Constant | Operation | AggregateTerm)
        return found

    def _misplaced(self, found: _Star | _Call) -> TidemarkError:
        if not isinstance(found, _Call):
            return self.source.error("syntax", "* stands in count(*) only", found.span)
        if found.name in AGGREGATES:
            hint = f"total(x, {found.name}(y)) :- r(x, y)."
            return self.source.error(
                "syntax", f"{found.name}(…) is an aggregate, and those stand in heads", found.span, hint
            )
        hint = "terms have + - * / %, no functions; an atom stands for itself"
        return self.source.error("syntax", f"{found.name}(…) cannot be used as a value", found.span, hint)

    # Clauses

    def _atom(self, found: Any, *, head: bool = False) -> Atom:
        if not isinstance(found, _Call):
            span = getattr(found, "span", Span(self.source.start, self.source.start + 1))
            what = "the head of a clause" if head else "a part of a body"
            hint = "p(x, y)" if head else "p(x, y), not p(x, y), or a comparison such as x < y"
            raise self.source.error("syntax", f"{what} cannot be a lone term", span, hint=hint)
        if found.name == "not" and not found.quoted:
            raise self.source.error(
                "syntax", "not is no predicate", found.span, hint="not p(x) negates an atom of a body"
            )
        if not found.arguments:
            raise self.source.error(
                "syntax", f"{found.name}() has no argument", found.span, hint="a predicate has at least one"
            )
        terms = tuple(self._head_term(a) if head else self._term(a) for a in found.arguments)
        return Atom(found.name, terms, found.span)

    def _head_term(self, found: Any) -> Term:
        if not isinstance(found, _Call) or found.quoted or found.name not in AGGREGATES:
            return self._term(found)
        if len(found.arguments) != 1:
            raise self.source.error("syntax", f"{found.name} takes one argument", found.span, hint=f"{found.name}(x)")
        if isinstance(found.arguments[0], _Star):
            if found.name != "count":
                raise self.source.error("syntax", "* stands in count(*) only", found.span)
            return AggregateTerm("count", None, found.span)
        return AggregateTerm(found.name, self._term(found.arguments[0]), found.span)

    def plain(self, meta: Any, children: list[Any]) -> BodyPart:
        return self._atom(children[0])

    def negated(self, meta: Any, children: list[Any]) -> BodyPart:
        return Negated(self._atom(children[0]), self._span(meta))

    def comparison(self, meta: Any, children: list[Any]) -> BodyPart:
        left, operator, right = children
        return Comparison(_COMPARISONS[str(operator)], self._term(left), self._term(right), self._span(meta))

    def clause(self, meta: Any, children: list[Any]) -> Clause:
        head, *body = children
        self.count += 1
        span = self._span(meta)
        return Clause(
            self.count, self._atom(head, head=True), tuple(body), self.source.text[span.begin : span.end], span
        )

    def start(self, meta: Any, children: list[Clause]) -> tuple[Clause, ...]:
        return tuple(children)


def _unquoted(token: Token) -> str:
    quote = str(token)[0]
    return str(token)[1:-1].replace(quote * 2, quote)
