"""The facade: connect, execute, transaction, changes, subscribe, audit, explain."""

from tidemark.database.connect import connect
from tidemark.database.database import Database
from tidemark.database.subscription import Change, Subscription
from tidemark.database.transaction import Transaction

__all__ = ["Change", "Database", "Subscription", "Transaction", "connect"]
