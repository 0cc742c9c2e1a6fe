"""TLS of what listens: certificate, key and trusted authority as files, read again when they are renewed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pilotage.model.errors import InputError

LOOK_SECONDS = 5.0  # between two looks at the files

Mark = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Of one server. PEM, the key without a password."""

    certificate: Path
    key: Path
    authority: Path | None = None  # callers may show certificates that it signed; who must is up to the server

    def context(self) -> ssl.SSLContext:
        """Of the files as they are now."""
        for file in (self.certificate, self.key):
            if not file.is_file():
                raise InputError("there is no such file", file=file, expected="a PEM file")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key, password="")  # or it would ask on the terminal
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            problem, expected = f"cannot be used with {self.key}: {error}", "a PEM chain and its key"
            raise InputError(problem, file=self.certificate, expected=expected) from error
        if self.authority is not None:
            try:
                context.load_verify_locations(self.authority)
            except OSError as error:
                raise InputError(f"cannot be used: {error}", file=self.authority, expected="PEM") from error
            context.verify_mode = ssl.CERT_OPTIONAL  # kubelets show none; the rest is checked request by request
        return context

    def mark(self) -> Mark:
        """Another one when a file was written, or replaced: links, as in mounted secrets, are followed."""
        return tuple(_mark(file) for file in (self.certificate, self.key, self.authority) if file is not None)


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Keys:
    """What a server encrypts with now. The files may be renewed while it runs."""

    def __init__(self, files: KeyFiles, change: Callable[[ssl.SSLContext], Awaitable[None]]) -> None:
        """`change` makes the server use another context for new connections: a context trusts for ever what it was
        once told to trust, so it is never changed itself."""
        self._files, self._change = files, change
        self._mark = files.mark()  # before they are read: what is written meanwhile is read again
        self.context = files.context()

    async def renew(self) -> None:
        """Reads the files. What was there stays when something is wrong with them."""
        mark = self._files.mark()
        context = await asyncio.to_thread(self._files.context)
        await self._change(context)
        self.context, self._mark = context, mark

    @asynccontextmanager
    async def renewed(
        self, on_problem: Callable[[str], None], on_renewed: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        """Follows the files while the context is open."""
        task = asyncio.create_task(self._look(on_problem, on_renewed))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look(self, on_problem: Callable[[str], None], on_renewed: Callable[[], None]) -> None:
        refused: Mark | None = None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            mark = self._files.mark()
            if mark == self._mark:
                continue
            try:
                await self.renew()
            except (InputError, OSError) as error:  # half of a pair, perhaps: the rest is looked at next time
                if mark != refused:
                    on_problem(f"keys are not renewed: {error}")
                refused = mark
            else:
                on_renewed()
