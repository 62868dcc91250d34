"""The facade: connect, execute, transaction, changes, subscribe, classify, advise, audit, explain."""

from tidemark.database.advising import Advice
from tidemark.database.classifying import Classification
from tidemark.database.connect import connect
from tidemark.database.database import Database
from tidemark.database.results import Result, Results
from tidemark.database.subscription import Change, Subscription
from tidemark.database.syncing import Synced
from tidemark.database.transaction import Transaction

__all__ = [
    "Advice",
    "Change",
    "Classification",
    "Database",
    "Result",
    "Results",
    "Subscription",
    "Synced",
    "Transaction",
    "connect",
]
