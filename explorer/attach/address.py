"""Where a server is, as a person writes it, and which of its interfaces is meant."""

import ipaddress
import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from engines import UserError
from explorer.importers.answers import FORMATS

KEY_VARIABLE = "DECODING_EXPLORER_SERVER_KEY"
LONGEST = 2000  # characters of an address
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Address(NamedTuple):
    """base: scheme, host, port and the path in front of an interface's own, without a slash at the end. api: what the
    address itself names, "" where it names none."""

    base: str
    api: str
    host: str

    @property
    def local(self) -> bool:
        """Whether the server is on this machine."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_address(text: object) -> Address:
    """Raises UserError for what is not an address of a server, and for one that holds a password."""
    allowed = "give http://HOST:PORT or https://HOST, as in http://127.0.0.1:8000"
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"the address of the server is empty; {allowed}.")
    given = text.strip()
    if len(given) > LONGEST or not given.isprintable() or " " in given:
        raise UserError(f"the address '{given[:60]!a}' is not understood; {allowed}.")
    try:
        parts = urlsplit(given)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UserError(f"the address is not understood ({error}); {allowed}.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"'{given[:60]}' is not an address of a server; {allowed}.")
    if parts.username is not None or parts.password is not None:
        raise UserError(f"the address holds a name or a password; put the key into the variable {KEY_VARIABLE}.")
    if parts.query or parts.fragment:
        raise UserError(f"the address has more behind its path ('?' or '#'); {allowed}.")
    path, api = parts.path.rstrip("/"), ""
    for name, made in FORMATS.items():
        if path.endswith(made.path):
            path, api = path.removesuffix(made.path), name
            break
    path = path.removesuffix("/v1")
    where = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{where}{f':{port}' if port else ''}{path}", api, host)


def key_for(address: Address, variable: str = "") -> str:
    """The key that goes to this server: the value of an environment variable, "" where the usual one is not set. Raises
    UserError where a key would travel readable for everyone on the way."""
    if variable and not _NAME.fullmatch(variable):
        raise UserError("--key-variable takes the name of an environment variable, never the key itself.")
    key = os.environ.get(variable or KEY_VARIABLE, "").strip()
    if variable and not key:
        raise UserError(f"the environment variable {variable} is empty or not set, so there is no key to send.")
    if key and not (key.isascii() and key.isprintable()):
        raise UserError(f"the key in {variable or KEY_VARIABLE} holds characters that no header can carry.")
    if key and address.base.startswith("http:") and not address.local:
        raise UserError(
            f"the key in {variable or KEY_VARIABLE} would go to {address.host} unencrypted; use https, or unset it."
        )
    return key
