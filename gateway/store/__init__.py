"""The journal: what must survive a crash, on SQLite.

Each module holds functions over a connection; `Database.run` makes each call one transaction.
"""
