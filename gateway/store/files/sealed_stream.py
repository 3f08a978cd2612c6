"""Encryption of files piece by piece, so that a file need not fit into memory.

A sealed file begins with a mark and a random id. Each piece is sealed for that id, its number and
whether it is the last piece, so that no piece can be left out, moved or taken from another file.
"""

import secrets
from collections.abc import Iterable, Iterator

from gateway.store.cipher import Cipher

PIECE_BYTES = 2**20
_MARK = b"KORE-SEALED-1\n"
_ID_BYTES = 16
# A nonce in front and a tag at the end, as in `Cipher.seal_bytes`.
_OVERHEAD_BYTES = 28


def sealed_size(size_bytes: int) -> int:
    """Return the size in bytes of a sealed file with `size_bytes` of content."""
    pieces = max(1, -(-size_bytes // PIECE_BYTES))
    return len(_MARK) + _ID_BYTES + size_bytes + pieces * _OVERHEAD_BYTES


def seal_pieces(pieces: Iterable[bytes], cipher: Cipher) -> Iterator[bytes]:
    file_id = secrets.token_bytes(_ID_BYTES)
    yield _MARK + file_id
    for number, (piece, is_last) in enumerate(_with_last(_even(pieces, PIECE_BYTES))):
        yield cipher.seal_bytes(piece, _place(file_id, number, is_last))


def unseal_pieces(pieces: Iterable[bytes], cipher: Cipher) -> Iterator[bytes]:
    """Yield the decrypted pieces.

    Raises `ValueError` for a stream that is incomplete or was not sealed by `seal_pieces` with this
    key.
    """
    stream = iter(pieces)
    head, head_bytes = b"", len(_MARK) + _ID_BYTES
    while len(head) < head_bytes:
        piece = next(stream, b"")
        if not piece:
            raise ValueError("a sealed file is cut off")
        head += piece
    if not head.startswith(_MARK):
        raise ValueError("this is not a sealed file")
    file_id, rest = head[len(_MARK) : head_bytes], head[head_bytes:]

    def behind() -> Iterator[bytes]:
        yield rest
        yield from stream

    sealed = _even(behind(), PIECE_BYTES + _OVERHEAD_BYTES)
    for number, (piece, is_last) in enumerate(_with_last(sealed)):
        yield cipher.unseal_bytes(piece, _place(file_id, number, is_last))


def _place(file_id: bytes, number: int, is_last: bool) -> str:
    return f"file:{file_id.hex()}:{number}:{'last' if is_last else 'more'}"


def _even(pieces: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    """Yield the bytes in pieces of equal size, except the last; at least one, possibly empty."""
    buffer = bytearray()
    is_empty = True
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size_bytes:
            yield bytes(buffer[:size_bytes])
            del buffer[:size_bytes]
            is_empty = False
    if buffer or is_empty:
        yield bytes(buffer)


def _with_last(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each piece and whether it is the last."""
    stream = iter(pieces)
    piece = next(stream)
    for following in stream:
        yield piece, False
        piece = following
    yield piece, True
