"""What a network needs to know of a definition before anybody needs its plans: the nodes that it is cut into, what they
read, and which of their parts they could share with others.

A definition is cut when somebody asks for the plan of one of its nodes. Until then its outline, which is small and can
be stored, stands for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tidemark.algebra.fingerprint import SHORT
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.strategy.cut import ALONE, OVER_GROUPINGS, WHOLE, Pieces, cut_alone, cut_anew, over_groupings, whole
from tidemark.strategy.nodes import StoredFilter
from tidemark.strategy.parts import Tree, flat, tree_of

UNCUT: Final = "uncut"
"""The way of a definition that is evaluated as a whole after each change."""


@dataclass(frozen=True)
class Outline:
    """The nodes of a definition: its own, and the states that serve it by their names, each with the digest of its
    columns. ``filters`` says of some nodes, as they were proved when it was defined, which rows of what they read can
    matter to them."""

    own: Tree
    states: Mapping[str, tuple[str, Tree]] = field(default_factory=dict)
    filters: Mapping[str, dict[str, StoredFilter]] = field(default_factory=dict, compare=False)

    def to_text(self) -> str:
        """The form in which it is stored."""
        states = {name: [columns, *_shown(tree)] for name, (columns, tree) in self.states.items()}
        filters = {node: {name: one.stored for name, one in known.items()} for node, known in self.filters.items()}
        shown = {"own": _shown(self.own), "states": states, "filters": filters}
        return json.dumps(shown, separators=(",", ":"))

    @staticmethod
    def of_text(text: str) -> Outline:
        shown = json.loads(text)
        states = {name: (columns, _tree(*tree)) for name, (columns, *tree) in shown["states"].items()}
        filters = {
            node: {name: StoredFilter(stored) for name, stored in known.items()}
            for node, known in shown["filters"].items()
        }
        return Outline(_tree(*shown["own"]), states, filters)


def _shown(tree: Tree) -> list[Any]:
    return [tree.rows, tree.recurs]


def _tree(rows: Iterable[tuple[str, Iterable[int | str]]], recurs: bool) -> Tree:
    return Tree(tuple([(digest, tuple(below)) for digest, below in rows]), recurs)


def columns_digest(schema: Schema) -> str:
    """A short name for columns: two states that are counted alike may have other names of columns."""
    return hashlib.sha256(str(schema).encode()).hexdigest()[:SHORT]


class Sourced(Protocol):
    """What has a plan that may yet have to be made, and perhaps an outline that is known already, as it is stored."""

    @property
    def plan(self) -> Plan: ...
    @property
    def known(self) -> str | None: ...


class Cutting:
    """One definition and what it is cut into: its outline at once, its plans when they are asked for."""

    def __init__(
        self, name: str, source: Plan | Sourced, way: str, pieces: Pieces | None = None, alone: Cutting | None = None
    ) -> None:
        self.name, self.source, self.way = name, source, way
        self.alone = alone or self
        self._pieces = pieces
        known = None if pieces is not None or isinstance(source, Plan) else source.known
        self._outline = None if known is None else Outline.of_text(known)

    @property
    def pieces(self) -> Pieces:
        if self._pieces is None:
            source = self.source
            made = CUTS[self.way](source if isinstance(source, Plan) else source.plan, self.name)
            if self._outline is not None and made.states.keys() != self._outline.states.keys():
                raise TidemarkError(
                    "internal",
                    f"the stored outline of {self.name!r} has other states than its definition",
                    hint="drop it and create it again",
                )
            self._pieces = made
        return self._pieces

    @property
    def outline(self) -> Outline:
        if self._outline is None:
            pieces = self.pieces
            own = flat(pieces.plan) if self.way == UNCUT else tree_of(pieces.plan, is_stored=self.is_stored)
            states = {name: (columns_digest(p.schema), tree_of(p)) for name, p in pieces.states.items()}
            self._outline = Outline(own, states)
        return self._outline

    @property
    def is_stored(self) -> bool:
        """Whether its own node is stored."""
        return self.way not in (WHOLE, OVER_GROUPINGS)

    def plan_of(self, node: str) -> Plan:
        """The plan of one of its nodes."""
        return self.pieces.states.get(node, self.pieces.plan)

    def over(self, states: Mapping[str, Plan]) -> Cutting:
        """The same over some states as others have them, with other names of columns."""
        return Cutting(self.name, self.source, self.way, cut_anew(self.pieces, self.name, states), self)


CUTS: Final[Mapping[str, Callable[[Plan, str], Pieces]]] = {
    ALONE: cut_alone,
    WHOLE: whole,
    OVER_GROUPINGS: over_groupings,
    UNCUT: lambda plan, _: Pieces(plan, plan, plan, {}, UNCUT),
}
