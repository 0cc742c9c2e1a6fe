"""Keys and certificates of one lab: an authority for the API server, another for etcd, so that who may talk to the
one may not read the other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pilotage.lab.ports import LOOPBACK

DAYS = 365


def write_private(path: Path, data: bytes) -> Path:
    """A file that only its owner can read, from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    return path


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Identity(...)"


class Authority:
    """Signs certificates of one lab."""

    def __init__(self, name: str, now: datetime) -> None:
        self._key, self._now = new_key(), now
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *groups: str) -> Identity:
        """For loopback as a server, and for the user `name` of `groups` as a client."""
        key = new_key()
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        hosts = x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK)), x509.DNSName("localhost")])
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = (
            self._builder(x509.Name(attributes), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(hosts, critical=False)
            .add_extension(uses, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(minutes=5))
            .not_valid_after(self._now + timedelta(days=DAYS))
        )
