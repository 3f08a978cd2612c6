"""Cache of text embeddings, so that each is requested only once."""

from collections.abc import Mapping, Sequence

from gateway.store.port import Transaction

# About 120 MB of vectors with 1,536 numbers.
MOST = 20_000


def load(tx: Transaction, digests: Sequence[bytes], now: float) -> dict[bytes, bytes]:
    """Return the cached vectors and mark them as used."""
    vectors: dict[bytes, bytes] = {}
    for digest in digests:
        row = tx.first("SELECT vector FROM embedding WHERE digest = ?", (digest,))
        if row is not None:
            vectors[digest] = row[0]
    # Updating once a day is enough.
    tx.many(
        "UPDATE embedding SET used_at = ? WHERE digest = ? AND used_at < ?",
        [(now, digest, now - 86_400) for digest in vectors],
    )
    return vectors


def save(tx: Transaction, vectors: Mapping[bytes, bytes], now: float) -> None:
    """Store vectors, and delete the least recently used ones over the limit."""
    tx.many(
        "INSERT INTO embedding (digest, vector, used_at) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET vector = excluded.vector, used_at = excluded.used_at",
        [(digest, vector, now) for digest, vector in vectors.items()],
    )
    (count,) = tx.one("SELECT count(*) FROM embedding")
    if count > MOST:
        tx.run(
            "DELETE FROM embedding WHERE digest IN"
            " (SELECT digest FROM embedding ORDER BY used_at, digest LIMIT ?)",
            (count - MOST,),
        )


def forget_all(tx: Transaction) -> None:
    tx.run("DELETE FROM embedding")
