"""From one clause to rules: variables are numbered and typed, NULL and arithmetic become conditions.

- A wildcard of an atom is a variable of its own, and arithmetic in an atom a variable that equals it.
- A variable has the common type of the columns that it stands for; numbers of different exact types meet, anything else
  must be of one type.
- ``x = term`` gives x its value if no atom does; then ``x`` must not be NULL, as every comparison must be true.
- A variable that joins must not be NULL: where all its columns may be, a condition says so.

Terms as typed expressions over the variables of a clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.algebra import clauses as rules
from tidemark.algebra.aggregates import sum_type
from tidemark.algebra.clauses import Anything, Argument, Assign, Condition, Const, Not, Part, Var
from tidemark.algebra.coerce import adapt_text_literals, coerce, common_of, days_beside_dates, folded, is_text_literal
from tidemark.algebra.expressions import Call, Cast, Column, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS
from tidemark.algebra.text import read_text
from tidemark.algebra.types import BIGINT, Field, Kind, Schema, Type
from tidemark.datalog.syntax import (
    AggregateTerm,
    Atom,
    Clause,
    Comparison,
    Constant,
    Operation,
    ProgramSource,
    Span,
    Term,
    Variable,
    Wildcard,
    variables_of,
)
from tidemark.errors import TidemarkError


def expression_of(term: Term, columns: Mapping[str, Column], clause: Clause, source: ProgramSource) -> Expression:
    """The expression that a term stands for. Every variable of it has a column."""
    match term:
        case Variable(name=name):
            return columns[name]
        case Constant(literal=literal):
            return literal
        case Operation(function=function, arguments=arguments, span=span):
            given = tuple(expression_of(argument, columns, clause, source) for argument in arguments)
            return call(function, given, clause, source, span)
    raise TypeError(f"not a value: {term!r}")


def comparison_of(
    comparison: Comparison, columns: Mapping[str, Column], clause: Clause, source: ProgramSource
) -> Expression:
    sides = tuple(expression_of(side, columns, clause, source) for side in (comparison.left, comparison.right))
    return call(comparison.function, sides, clause, source, comparison.span)


def call(name: str, arguments: tuple[Expression, ...], clause: Clause, source: ProgramSource, span: Span) -> Expression:
    """A call of the function table, with its arguments brought to the types of the signature."""
    function = FUNCTIONS[name]
    try:
        arguments = days_beside_dates(adapt_text_literals(arguments))
    except TidemarkError as error:
        raise error.restated(f"{error.message}, in {clause}", place=source.place(span)) from error
    signature = function.resolve(tuple(argument.type for argument in arguments))
    if signature is None:
        given = ", ".join(str(argument.type) for argument in arguments)
        message = f"{function.infix or name} does not take ({given}), in {clause}"
        raise source.error("type", message, span, hint=f"usage: {function.usage}")
    coerced = tuple(coerce(a, wanted) for a, wanted in zip(arguments, signature.arguments, strict=True))
    nullable = function.nullable(tuple(argument.nullable for argument in coerced))
    return folded(Call(name, coerced, signature.result, nullable))


KnownColumns = Mapping[str, Sequence[Field | None]]
"""The columns of every predicate, as far as they are known."""


class NotKnown(Exception):
    """A type that the clause needs is not known yet."""


@dataclass(frozen=True)
class BoundClause:
    """A clause as rules, with the expressions and fields of its head before they are brought to the column's type."""

    clause: Clause
    variables: tuple[Field, ...]
    body: tuple[Part, ...]
    head: tuple[Expression | GroupedCell, ...]


@dataclass(frozen=True)
class GroupedCell:
    """An aggregate of a head: its function and the expression that it looks at."""

    function: str
    argument: Expression | None

    @property
    def type(self) -> Type:
        if self.function == "count":
            return BIGINT
        assert self.argument is not None
        return self.argument.type if self.function in ("min", "max") else _visible_sum(self.argument.type)

    @property
    def nullable(self) -> bool:
        return self.argument is not None and self.function != "count" and self.argument.nullable


def _visible_sum(argument: Type) -> Type:
    return BIGINT if argument == BIGINT else sum_type(argument)


class _Binder:
    def __init__(self, clause: Clause, known: KnownColumns, source: ProgramSource) -> None:
        self.clause, self.known, self.source = clause, known, source
        self.fields: list[Field] = []
        self.columns: dict[str, Column] = {}
        self.parts: list[Part] = []
        self.fresh = 0

    def bind(self) -> BoundClause:
        self._settle_variables()
        pending = list(self.clause.comparisons)
        atoms = [self._atom(atom, pending) for atom in self.clause.atoms]
        self._settle_equalities(pending)
        self._place_comparisons(pending)
        negations = [Not(self._negated(atom), strict=True) for atom in self.clause.negated]
        head = tuple(self._head_cell(term) for term in self.clause.head.terms)
        body = (*atoms, *self.parts, *negations)
        return BoundClause(self.clause, tuple(self.fields), body, head)

    # Variables

    def _add(self, name: str, type: Type, nullable: bool) -> Column:
        self.fields.append(Field(name, type, nullable))
        return Column(len(self.fields) - 1, name, type, nullable)

    def _anonymous(self, type: Type, nullable: bool) -> Column:
        self.fresh += 1
        return self._add(f"?{self.fresh}", type, nullable)

    def _column_at(self, atom: Atom, position: int) -> Field | None:
        return self.known[atom.predicate][position]

    def _settle_variables(self) -> None:
        """Variables of atoms: their common types, and that a variable which joins or is compared is not NULL."""
        compared = self._compared()
        occurrences: dict[str, list[tuple[Atom, int]]] = {}
        for atom in self.clause.atoms:
            for position, term in enumerate(atom.terms):
                if isinstance(term, Variable):
                    occurrences.setdefault(term.name, []).append((atom, position))
                elif isinstance(term, Operation):
                    compared |= {v.name for v in variables_of(term)}
        for name, places in occurrences.items():
            known = [(a, p, f) for a, p in places if (f := self._column_at(a, p)) is not None]
            if not known:
                raise NotKnown
            type = self._common(name, known)
            may_be = all(field.nullable for _, _, field in known)
            joins = len(places) > 1
            column = self._add(name, type, may_be and not joins and name not in compared)
            self.columns[name] = column
            if may_be and joins and name not in compared:
                self.parts.append(rules.is_present(Schema(tuple(self.fields)), column.index))

    def _compared(self) -> set[str]:
        """The variables of comparisons that stay comparisons, and so are true for no NULL."""
        bound = {term.name for atom in self.clause.atoms for term in atom.terms if isinstance(term, Variable)}
        found: set[str] = set()
        for comparison in self.clause.comparisons:
            names = {v.name for v in variables_of(comparison)}
            if comparison.function != "eq" or names <= bound:
                found |= names
        return found

    def _common(self, name: str, known: list[tuple[Atom, int, Field]]) -> Type:
        first_atom, first_position, first = known[0]
        type = first.type
        for atom, position, field in known[1:]:
            shared = common_of([type, field.type])
            if shared is None or (field.type != type and not shared.is_exact):
                message = (
                    f"the variable {name!r} of {self.clause} is {type} in {first_atom.predicate} (column "
                    f"{first_position + 1}) and {field.type} in {atom.predicate} (column {position + 1})"
                )
                hint = "a variable has one type; exact numbers of different types may meet"
                raise self.source.error("type", message, atom.terms[position].span, hint=hint)
            type = shared
        return type

    # The body

    def _atom(self, atom: Atom, pending: list[Comparison]) -> rules.Atom:
        arguments: list[Argument] = []
        for position, term in enumerate(atom.terms):
            field = self._column_at(atom, position)
            match term:
                case Variable(name=name):
                    arguments.append(self._stands_for(self.columns[name], field))
                case Wildcard():
                    arguments.append(variable_of(self._anonymous(*_known(field))))
                case Constant():
                    arguments.append(Const(self._constant(term, _known(field)[0])))
                case Operation():
                    column = self._anonymous(_known(field)[0], nullable=False)
                    self.columns[column.name] = column
                    pending.append(Comparison("eq", Variable(column.name, term.span), term, term.span))
                    arguments.append(variable_of(column))
                case AggregateTerm():
                    raise AssertionError("the grammar keeps aggregates out of bodies")
        return rules.Atom(atom.predicate, tuple(arguments))

    def _stands_for(self, column: Column, field: Field | None) -> Var:
        """The variable itself; where an integer stands for a decimal, another one that is brought to its type."""
        if field is None or field.type == column.type or field.type.kind is column.type.kind:
            return variable_of(column)
        if field.type.is_integer and column.type.is_integer:
            return variable_of(column)
        raw = self._anonymous(field.type, field.nullable)
        self.parts.append(Assign(variable_of(column), Cast(raw, column.type)))
        return variable_of(raw)

    def _constant(self, term: Constant, type: Type) -> Literal:
        literal = term.literal
        try:
            if is_text_literal(literal) and type.kind is not Kind.VARCHAR:
                literal = Literal(read_text(str(literal.value), type), type)
        except TidemarkError as error:
            raise self.source.error("type", f"{error.message}, in {self.clause}", term.span) from error
        shared = common_of([type, literal.type])
        if shared is None:
            message = f"{literal.type} constant in {self.clause} where the column is {type}"
            raise self.source.error("type", message, term.span)
        return coerce(literal, type) if shared == type else literal  # type: ignore[return-value]

    def _settle_equalities(self, pending: list[Comparison]) -> None:
        """``x = term`` for variables that no atom binds, in whatever order they can be computed."""
        progress = True
        while progress:
            progress = False
            for comparison in list(pending):
                for target, value in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
                    if comparison.function != "eq" or not isinstance(target, Variable) or target.name in self.columns:
                        continue
                    if all(v.name in self.columns for v in variables_of(value)):
                        expression = expression_of(value, self.columns, self.clause, self.source)
                        column = self._add(target.name, expression.type, nullable=False)
                        self.columns[target.name] = column
                        self.parts.append(Assign(variable_of(column), expression))
                        if expression.nullable:
                            self.parts.append(rules.is_present(Schema(tuple(self.fields)), column.index))
                        pending.remove(comparison)
                        progress = True
                        break

    def _place_comparisons(self, pending: list[Comparison]) -> None:
        for comparison in pending:
            self.parts.append(Condition(comparison_of(comparison, self.columns, self.clause, self.source)))

    def _negated(self, atom: Atom) -> rules.Atom:
        arguments: list[Argument] = []
        for position, term in enumerate(atom.terms):
            type = _known(self._column_at(atom, position))[0]
            match term:
                case Variable(name=name):
                    arguments.append(variable_of(self._fitting(self.columns[name], type, atom, term)))
                case Wildcard():
                    arguments.append(Anything())
                case Constant():
                    arguments.append(Const(self._constant(term, type)))
                case _:
                    expression = expression_of(term, self.columns, self.clause, self.source)
                    column = self._anonymous(expression.type, expression.nullable)
                    self.parts.append(Assign(variable_of(column), expression))
                    arguments.append(variable_of(self._fitting(column, type, atom, term)))
        return rules.Atom(atom.predicate, tuple(arguments))

    def _fitting(self, column: Column, type: Type, atom: Atom, term: Term) -> Column:
        shared = common_of([column.type, type])
        if column.type == type or (shared is not None and shared.is_exact):
            return column
        message = f"{column.type} under not {atom.predicate} in {self.clause} where the column is {type}"
        raise self.source.error("type", message, term.span)

    # The head

    def _head_cell(self, term: Term) -> Expression | GroupedCell:
        if not isinstance(term, AggregateTerm):
            return expression_of(term, self.columns, self.clause, self.source)
        if term.argument is None:
            return GroupedCell("count", None)
        argument = expression_of(term.argument, self.columns, self.clause, self.source)
        if term.function == "sum" and not argument.type.is_numeric:
            message = f"sum of {argument.type} in {self.clause}"
            raise self.source.error("type", message, term.span, hint="sum takes numbers")
        if term.function == "sum" and argument.type.is_float:
            message = (
                f"a sum of {argument.type} in {self.clause}: its last digits are not certain, and the view is a set"
            )
            raise self.source.error("approximate_key", message, term.span, hint="sum a DECIMAL")
        if term.function in ("min", "max") and argument.type.element is not None:
            raise self.source.error("type", f"{term.function} of an array in {self.clause}", term.span)
        return GroupedCell(term.function, argument)


def bind_clause(clause: Clause, known: KnownColumns, source: ProgramSource) -> BoundClause:
    """The clause with its types, or NotKnown if one of them is not known yet."""
    return _Binder(clause, known, source).bind()


def variable_of(column: Column) -> Var:
    return Var(column.index, column.name)


def _known(field: Field | None) -> tuple[Type, bool]:
    if field is None:
        raise NotKnown
    return field.type, field.nullable
