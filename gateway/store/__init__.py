"""Durable storage on SQLite or PostgreSQL.

Repositories are functions over a `Transaction`; `Store.transact` runs each as one transaction.
"""
