"""IncrWindow: partitions that were touched, old against new.

    Δ ω(E) = ω(E_new ⋉ K) − ω(E_old ⋉ K),   K = the partitions that occur in ΔE

Where the network keeps the window's rows, those stand for the old ones (``fresh.py``).
"""

from __future__ import annotations

from tidemark.algebra.plans import Negate, Plan, Window, union
from tidemark.calculus.fresh import touched_keys
from tidemark.calculus.restrict import restrict
from tidemark.calculus.states import new, old


def incremental_window(plan: Window, delta: Plan) -> Plan:
    keys = tuple(part.index for part in plan.partition)
    touched = touched_keys(delta, keys)
    after = plan.with_inputs((restrict(new(plan.input), touched, keys),))
    before = plan.with_inputs((restrict(old(plan.input), touched, keys),))
    return union((after, Negate(before)), plan.schema)
