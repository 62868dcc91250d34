"""The facade: connect, execute, transaction, changes, subscribe, classify, advise, audit, explain."""

from tidemark.answers.advise import Advice
from tidemark.answers.classify import Classification
from tidemark.changes.results import Result, Results
from tidemark.changes.subscription import Change, Subscription
from tidemark.session.changes import Synced
from tidemark.session.connect import connect
from tidemark.session.database import Database
from tidemark.session.relation import Relation
from tidemark.session.transaction import Transaction

__all__ = [
    "Advice",
    "Change",
    "Classification",
    "Database",
    "Relation",
    "Result",
    "Results",
    "Subscription",
    "Synced",
    "Transaction",
    "connect",
]
