"""An answer of an HTTP/1.1 server, read from bytes as they come, however they are cut."""

from __future__ import annotations

import httptools

from pilotage.kube.errors import UnreachableError

MAX_HEAD_BYTES = 64 * 1024


class Answer:
    """Fed until it is complete. Methods that begin with `on_` are called by the parser."""

    def __init__(self) -> None:
        self.status = 0  # 0: its head is not here yet
        self.headers: dict[str, str] = {}  # names in small letters
        self.pieces: list[bytes] = []  # of its body, not taken yet
        self.complete = False
        self.keeps_open = False  # whether the server takes another request on this connection
        self._head_bytes = 0
        self._ends_with_connection = False
        self._parser = httptools.HttpResponseParser(self)

    def take(self) -> bytes:
        """What came of its body since it was last asked."""
        pieces, self.pieces = self.pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def feed(self, data: bytes) -> None:
        """Raises UnreachableError for what is no answer."""
        if self.complete:
            raise UnreachableError("more was sent than was asked for")
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise UnreachableError(str(error.__context__)) from error
        except httptools.HttpParserError as error:
            raise UnreachableError(f"this is no HTTP: {error}") from error
        if not self.status and self._head_bytes > MAX_HEAD_BYTES:
            raise UnreachableError(f"a head of more than {MAX_HEAD_BYTES} bytes")
        if self.complete:
            del self._parser  # it holds on to this answer

    def end(self) -> None:
        """The connection was closed: fine only where that is what ends the body."""
        if not self._ends_with_connection:
            raise UnreachableError("the connection was closed before the answer was complete")
        self.complete = True

    def on_message_begin(self) -> None:
        if self.complete:
            raise UnreachableError("more was sent than was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status, version = self._parser.get_status_code(), self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise UnreachableError(f"HTTP {version}")
        if status < 200:  # something before the answer
            self.headers.clear()
            return
        self.status, self.keeps_open = status, self._parser.should_keep_alive()
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise UnreachableError(f"a body that is {coding[:60]!r}")
        self._ends_with_connection = coding is None and "content-length" not in self.headers

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        self.complete = self.status > 0
