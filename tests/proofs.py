"""An independent checker of derivations: each step, evaluated on its children alone, gives its row.

It knows nothing of how derivations are found. Leaves must be stored rows; a step's plan is cut where its children
stand, and evaluated by the reference interpreter over their rows. That something is missing is checked by evaluating
the whole plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import tidemark as tm
from tests.datalog import naive
from tests.support import Bag, bag_of
from tidemark.algebra.approximate import are_close
from tidemark.algebra.plans import Filter, Fixpoint, Join, Net, Plan, Project, Scan, Stored, Values, transform
from tidemark.algebra.scalar import Row
from tidemark.engines.reference.evaluate import evaluate
from tidemark.provenance import Absence, Answer, Derivation, Kind


class Checker:
    """The stored content of a database, and the definitions of its views."""

    def __init__(self, db: tm.Database) -> None:
        catalog = db._store.catalog
        self.definitions: Mapping[str, Plan] = {view.name: view.plan for view in catalog.views}
        stored = [*(table.name for table in catalog.tables), *(view.name for view in catalog.materialized_views)]
        self.content: dict[str, Bag] = {name: bag_of(db.query(f'SELECT * FROM "{name}"')) for name in stored}

    def check(self, step: Derivation) -> None:
        """Fail unless the tree is a proof."""
        assert len(step.columns) == len(step.row), step
        match step.kind:
            case Kind.TABLE:
                assert self.content[step.relation][step.row] >= step.times, step
            case Kind.VIEW:
                (child,) = derivations(step)
                assert child.row == step.row
                assert child.plan == self.definitions[step.relation]
            case Kind.WRITTEN:
                assert isinstance(step.plan, Values)
                assert step.row in step.plan.rows
            case Kind.PREDICATE:
                (child,) = derivations(step)
                assert (child.kind, child.row) == (Kind.RULE, step.row)
            case Kind.RULE:
                self._rule(step)
            case _:
                assert step.plan is not None
                self._step(step, step.plan)
        for child in derivations(step):
            self.check(child)

    def _step(self, step: Derivation, plan: Plan) -> None:
        below = list(derivations(step))
        match step.kind:
            case Kind.QUERY:
                rest = iter(below)
                self._gives(step, cut(plan, rest))
                assert next(rest, None) is None
            case Kind.GROUP | Kind.WINDOW:
                self._many(step, plan, below)
            case Kind.UNION:
                assert below[0].row == step.row
                assert below[0].plan in plan.inputs()
                self._whole(step, plan)
            case Kind.FIRST | Kind.DIFFERENCE:
                assert below[0].plan == plan.inputs()[0]
                assert below[0].row[: len(step.row)] == step.row
                self._whole(step, plan)
            case Kind.DISTINCT | Kind.INTERSECTION | Kind.UNNEST | Kind.REPEAT:
                assert [child.plan for child in below] == list(plan.inputs())
                inputs = tuple(
                    Values((child.row,), part.schema) for child, part in zip(below, plan.inputs(), strict=True)
                )
                self._gives(step, plan.with_inputs(inputs))
            case _:
                raise AssertionError(f"no check for {step.kind}")

    def _rule(self, step: Derivation) -> None:
        """The rule without what it negates, by nested loops over the rows of its children."""
        assert step.rule is not None
        rows: dict[str, set[Row]] = {atom.predicate: set() for atom in step.rule.atoms}
        for atom, child in zip(step.rule.atoms, derivations(step), strict=True):
            rows[atom.predicate].add(child.row)
        body = tuple(part for part in step.rule.body if part not in step.rule.negations)
        assert step.row in naive.derive(replace(step.rule, body=body), rows)

    def _many(self, step: Derivation, plan: Plan, below: list[Derivation]) -> None:
        (source,) = plan.inputs()
        assert all(child.plan == source for child in below)
        rows = tuple(child.row for child in below for _ in range(child.times))
        assert step.total is not None
        if len(rows) == step.total:
            self._gives(step, plan.with_inputs((Values(rows, source.schema),)))
        else:
            self._whole(step, plan)

    def _gives(self, step: Derivation, plan: Plan) -> None:
        found = evaluate(resolved(self._unrolled(plan)), self.content, {})
        assert there(step.row, found), f"{step.row} does not follow:\n{step}"

    def _unrolled(self, plan: Plan) -> Plan:
        """The plan with the rows of its fixpoints written out, by nested loops."""

        def replaced(part: Plan) -> Plan | None:
            if not isinstance(part, Fixpoint):
                return None
            rows = {
                name: set(evaluate(resolved(self._unrolled(source)), self.content, {}))
                for name, source in zip(part.sources, part.parts, strict=True)
            }
            members: dict[str, set[Row]] = {name: set() for name, _ in part.members}
            grown = -1
            while grown < (grown := sum(map(len, members.values()))):
                for rule in part.rules:
                    members[rule.head.predicate] |= naive.derive(rule, {**rows, **members})
            return Values(tuple(members[part.predicate]), part.schema)

        return transform(plan, replaced)

    def _whole(self, step: Derivation, plan: Plan) -> None:
        """What is missing is checked on everything."""
        self._gives(step, plan)


def derivations(step: Answer) -> Iterator[Derivation]:
    return (child for child in step.children if isinstance(child, Derivation))


def cut(plan: Plan, below: Iterator[Derivation]) -> Plan:
    """The filters, projections and joins at the top of a plan over the rows of the children."""
    if isinstance(plan, Filter | Project | Join | Net):
        return plan.with_inputs(tuple(cut(part, below) for part in plan.inputs()))
    if isinstance(plan, Values) and plan.rows == ((),):
        return plan
    child = next(below)
    assert child.plan == plan
    return Values((child.row,), plan.schema)


def resolved(plan: Plan) -> Plan:
    return transform(plan, lambda part: Stored(part.relation, part.schema) if isinstance(part, Scan) else None)


def there(row: Row, bag: Mapping[Row, int]) -> bool:
    if bag.get(row, 0) > 0:
        return True
    return any(weight > 0 and are_close(row, other) for other, weight in bag.items())


def check_answer(db: tm.Database, relation: str, row: Row, content: Bag, *, rows: int = 50) -> Answer:
    """Whether a row is there is answered rightly, and a derivation is a proof."""
    answer = db.why(relation, row, rows=rows)
    assert answer.is_there == (content[row] > 0), f"{row} in {relation}:\n{answer}"
    if isinstance(answer, Derivation):
        assert answer.row == row
        assert answer.times == content[row]
        Checker(db).check(answer)
    else:
        assert isinstance(answer, Absence)
        assert answer.reason
    assert str(answer)
    return answer
