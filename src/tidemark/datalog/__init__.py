"""Datalog: clauses to bound, typed rules and plans, and how recursive views follow the changes of their relations.

The language is that of Staudt and Jarke, section 2.1: safe clauses with stratified negation, and with comparisons,
arithmetic and aggregates by stratum beside it. Nothing here knows an engine: rows come by look-ups.
"""
