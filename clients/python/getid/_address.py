"""Addresses: reads ``getid://user:password@host:7890,host2``."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

PORT = 7890
URL_BYTES_MAX = 16_384
HOSTS_MAX = 64


@dataclass(frozen=True)
class Address:
    """One server: a host and a port, or the path of a Unix socket."""

    host: str
    port: int = 0
    is_socket: bool = False

    def __str__(self) -> str:
        if self.is_socket:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Target:
    """All that a URL has: addresses in the order of use, the login, and whether TLS is used."""

    addresses: tuple[Address, ...]
    is_tls: bool = False
    user: bytes | None = field(default=None, repr=False)
    password: bytes | None = field(default=None, repr=False)

    @property
    def login(self) -> tuple[bytes, ...]:
        """Arguments of ``AUTH``; empty without a login."""
        if self.password is None:
            return ()
        return (self.password,) if self.user is None else (self.user, self.password)


def parse_url(url: str | None = None) -> Target:
    """Reads ``url``, else ``GETID_URL``, else the local server. The addresses are shuffled unless ``order=given``."""
    if url is None:
        url = os.environ.get("GETID_URL") or f"getid://127.0.0.1:{PORT}"
    if not isinstance(url, str):
        raise TypeError(f"url is of type {type(url).__name__}, must be a str such as 'getid://127.0.0.1:{PORT}'")
    if len(url) > URL_BYTES_MAX:
        raise ValueError(f"url has {len(url):,} characters, must have at most {URL_BYTES_MAX:,}")
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("getid", "getids", "getid+unix"):
        # The text may hold a password, so only a scheme is shown.
        found = repr(scheme) if separator else "none"
        raise ValueError(f"scheme of the url is {found}, must be 'getid', 'getids' or 'getid+unix'")
    rest, _, query = rest.partition("?")
    is_shuffled = _is_shuffled(query)
    if scheme == "getid+unix":
        if not hasattr(socket, "AF_UNIX"):
            raise ValueError(f"this platform has no Unix sockets, the url must be as in 'getid://127.0.0.1:{PORT}'")
        return _socket_target(rest)
    login, separator, hosts = rest.rpartition("@")
    user, password = _login(login) if separator else (None, None)
    names = hosts[:-1].split(",") if hosts.endswith("/") else hosts.split(",")
    if len(names) > HOSTS_MAX:
        raise ValueError(f"url has {len(names)} hosts, must have at most {HOSTS_MAX}")
    addresses = [_address(name, number) for number, name in enumerate(names, 1)]
    if is_shuffled:
        random.SystemRandom().shuffle(addresses)
    return Target(tuple(addresses), scheme == "getids", user, password)


def _is_shuffled(query: str) -> bool:
    is_shuffled = True
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name != "order":
            # A '?' in a password that is not percent-encoded leads here, so only a plain word is shown.
            found = repr(name) if name.isalpha() and "@" not in query else "(not shown)"
            raise ValueError(
                f"url has the unknown option {found}, must be 'order=given': write '%3F' for '?' in a login"
            )
        if value != "given":
            raise ValueError("option order of the url has an unknown value, must be 'order=given'")
        is_shuffled = False
    return is_shuffled


def _socket_target(rest: str) -> Target:
    login, separator, path = rest.rpartition("@")
    user, password = _login(login) if separator else (None, None)
    if not path.startswith("/"):
        raise ValueError("path of the url is not absolute, must be as in 'getid+unix:///run/getid.sock'")
    return Target((Address(os.fsdecode(_unquote("path", path)), is_socket=True),), False, user, password)


def _login(text: str) -> tuple[bytes | None, bytes]:
    user, separator, password = text.partition(":")
    if not separator:
        raise ValueError("url has a user without a password, must be 'getid://user:password@host' or without '@'")
    return _unquote("user", user) or None, _unquote("password", password)


def _unquote(part: str, text: str) -> bytes:
    pieces = text.split("%")[1:]
    if any(len(piece) < 2 or not set(piece[:2]) <= set("0123456789abcdefABCDEF") for piece in pieces):
        raise ValueError(f"{part} of the url has a '%' without two hex digits: write '%25' for '%'")
    return unquote_to_bytes(text)


def _address(text: str, number: int) -> Address:
    # The texts are not shown: without an '@' a password would be taken for a port.
    where = f"host {number} of the url"
    if text.startswith("["):
        host, separator, port = text[1:].partition("]")
        if not separator or (port and not port.startswith(":")):
            raise ValueError(f"{where} is no IPv6 address, must be as in '[::1]:{PORT}'")
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError(f"{where} is empty, must be as in 'getid://127.0.0.1:{PORT}'")
    if ":" in port:
        raise ValueError(f"{where} has several ':': write IPv6 addresses as '[::1]:{PORT}'")
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise ValueError(f"{where} has a port that is not 1 to 65,535, must be as in 'getid://127.0.0.1:{PORT}'")
    return Address(host, int(port) if port else PORT)
