"""The hunt for wrong answers: random histories and queries on an engine, beside the reference and SQLite.

``python -m tests.hunt`` (or ``make hunt``) goes on for as many minutes as it is given. Each round is made of one
number, so that the same number gives the same round again. A round that finds a wrong answer is made as short as it
can be, and printed as a script that shows the wrong answer by itself.
"""
