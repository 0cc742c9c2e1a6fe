"""Who may ask: on loopback and Unix sockets all who can connect, elsewhere by TLS and a certificate or token."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path

from pilotage.kube.keys import KeyFiles
from pilotage.kube.listening import is_loopback, read_token
from pilotage.model.errors import InputError
from pilotage.serving.problems import RefusedError


@dataclass(frozen=True)
class Security:
    """Files of the operator; what is not given is not asked for."""

    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    token_file: Path | None = None

    def check(self, host: str | None) -> None:
        """Raises when this is not enough for the address that is listened on."""
        if (self.certificate is None) != (self.key is None):
            raise InputError("one without the other", field="--tls-cert, --tls-key", expected="both or none")
        if self.client_authority is not None and self.certificate is None:
            raise InputError("needs TLS", field="--client-ca", expected="--tls-cert and --tls-key beside it")
        if host is not None and not is_loopback(host):
            if self.certificate is None:
                raise InputError(
                    f"{host} is not loopback", field="--host", expected="--tls-cert and --tls-key beside it"
                )
            if self.client_authority is None and self.token_file is None:
                raise InputError(
                    f"{host} is not loopback",
                    field="--host",
                    expected="--client-ca or --token-file, so that not all may ask",
                )

    @property
    def files(self) -> KeyFiles | None:
        if self.certificate is None or self.key is None:
            return None
        return KeyFiles(self.certificate, self.key, self.client_authority)

    def token(self) -> bytes | None:
        if self.token_file is None:
            return None
        return read_token(self.token_file).encode()


@dataclass
class Gate:
    """Lets requests in."""

    asks_certificate: bool = False
    token: bytes | None = None

    def let_in(self, *, certificate: str | None, local: bool, authorization: str | None, extender: bool) -> None:
        """Extender verbs need a certificate where certificates are asked for: kube-scheduler can show nothing else."""
        if local or (not self.asks_certificate and self.token is None):
            return
        if self.asks_certificate and certificate is not None:
            return
        if self.token is not None and not (extender and self.asks_certificate):
            scheme, _, shown = (authorization or "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self.token):
                return
        wanted = (
            "a client certificate" if extender and self.asks_certificate else "a client certificate or bearer token"
        )
        raise RefusedError(401, "unauthenticated", f"this needs {wanted}")
