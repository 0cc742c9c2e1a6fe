"""An answer of an HTTP/1.1 server, read from bytes as they come, however they are cut."""

from __future__ import annotations

from collections.abc import Callable

from pilotage.kube.errors import UnreachableError

MAX_HEAD_BYTES = 64 * 1024
MAX_LINE_BYTES = 4096  # that tells the length of a chunk
WITHOUT_BODY = (204, 304)


class Answer:
    """Fed until it is complete."""

    __slots__ = ("_left", "_rest", "_step", "complete", "headers", "keeps_open", "pieces", "status")

    def __init__(self) -> None:
        self.status = 0  # 0: its head is not here yet
        self.headers: dict[str, str] = {}  # names in small letters
        self.pieces: list[bytes] = []  # of its body, not taken yet
        self.complete = False
        self.keeps_open = False  # whether the server takes another request on this connection
        self._rest = b""  # what a step could do nothing with yet
        self._left = 0  # bytes of the body, or of the chunk, that are to come
        self._step: Callable[[bytes], bytes | None] = self._head

    def take(self) -> bytes:
        """What came of its body since it was last asked."""
        pieces, self.pieces = self.pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def feed(self, data: bytes) -> None:
        """Raises UnreachableError for what is no answer."""
        rest: bytes | None = self._rest + data if self._rest else data
        self._rest = b""
        while rest and not self.complete:
            before, rest = rest, self._step(rest)
            if rest is None:
                self._rest = before
        if rest:
            raise UnreachableError("more was sent than was asked for")

    def end(self) -> None:
        """The connection was closed: fine only where that is what ends the body."""
        if self._step != self._until_closed:
            raise UnreachableError("the connection was closed before the answer was complete")
        self.complete = True

    # Each step takes what it understands and returns the rest; None: it needs more.

    def _head(self, data: bytes) -> bytes | None:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > MAX_HEAD_BYTES:
                raise UnreachableError(f"a head of more than {MAX_HEAD_BYTES} bytes")
            return None
        first, *lines = data[:end].decode("latin-1").split("\r\n")
        status = first[9:12]
        if first[:9] not in ("HTTP/1.1 ", "HTTP/1.0 ") or not (status.isascii() and status.isdigit()):
            raise UnreachableError(f"this is no HTTP: {first[:60]!r}")
        if status[0] == "1":  # something before the answer
            return data[end + 4 :]
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self.status = int(status)
        self.keeps_open = first[7] == "1" and "close" not in self.headers.get("connection", "").lower()
        self._expect_body()
        return data[end + 4 :]

    def _expect_body(self) -> None:
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if self.status in WITHOUT_BODY:
            self.complete = True
        elif coding is not None:
            if coding.lower() != "chunked":
                raise UnreachableError(f"a body that is {coding[:60]!r}")
            self._step = self._size
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise UnreachableError(f"a body of {length[:60]!r} bytes")
            self._left = int(length)
            self._step, self.complete = self._counted, not self._left
        else:
            self._step, self.keeps_open = self._until_closed, False

    def _counted(self, data: bytes) -> bytes:
        rest = self._take(data)
        self.complete = not self._left
        return rest

    def _until_closed(self, data: bytes) -> bytes:
        self.pieces.append(data)
        return b""

    def _size(self, data: bytes) -> bytes | None:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > MAX_LINE_BYTES:
                raise UnreachableError("a chunk without a length")
            return None
        digits = data[:end].partition(b";")[0].strip()
        try:
            self._left = int(digits, 16)
        except ValueError:
            raise UnreachableError(f"a chunk of {digits[:60]!r} bytes") from None
        if self._left < 0:
            raise UnreachableError("a chunk of less than nothing")
        self._step = self._chunk if self._left else self._trailer
        return data[end + 2 :]

    def _chunk(self, data: bytes) -> bytes:
        rest = self._take(data)
        if not self._left:
            self._step = self._chunk_end
        return rest

    def _chunk_end(self, data: bytes) -> bytes | None:
        if len(data) < 2:
            return None
        if data[:2] != b"\r\n":
            raise UnreachableError("a chunk that is longer than it says")
        self._step = self._size
        return data[2:]

    def _trailer(self, data: bytes) -> bytes | None:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > MAX_LINE_BYTES:
                raise UnreachableError("a trailer without an end")
            return None
        self.complete = end == 0
        return data[end + 2 :]

    def _take(self, data: bytes) -> bytes:
        taken, rest = (data, b"") if len(data) <= self._left else (data[: self._left], data[self._left :])
        self._left -= len(taken)
        self.pieces.append(taken)
        return rest
