"""Where a server is, as a person writes it, which of its interfaces is meant, what it may be asked, and what it says
about itself."""

import ipaddress
import os
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from engines import UserError, texts
from explorer.importers.answers import FORMATS, MAX_TOP, Format
from explorer.importers.build import short

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


MAX_PROMPT = 200_000  # characters
MAX_TOKENS = 8192
MAX_SECONDS = 600.0
COUNTERS = ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")


def interface(name: str) -> Format:
    """A reader for an answer of this interface. Raises UserError for one that is not known."""
    if name not in FORMATS:
        raise UserError(f"the interface '{str(name)[:40]}' is not known; choose one of {', '.join(FORMATS)}.")
    return FORMATS[name]()


def check(prompt: object, max_tokens: object, top: object, temperature: object, patience: float, most: float) -> None:
    """Raises UserError for what no server is asked."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise UserError("the prompt is empty; type what the server shall answer.")
    if len(prompt) > MAX_PROMPT:
        raise UserError(f"the prompt has {len(prompt):,} characters; at most {MAX_PROMPT:,} are sent.")
    for name, count, low, high in (("max tokens", max_tokens, 1, MAX_TOKENS), ("top", top, 0, MAX_TOP)):
        if type(count) is not int or not low <= count <= high:
            raise UserError(f"{name}={str(count)[:40]} is not allowed; give a whole number from {low} to {high}.")
    for name, value, least, most_of_it in (
        ("temperature", temperature, 0.0, 5.0),
        ("patience", patience, 0.1, 3600.0),
        ("seconds", most, 0.1, 86400.0),
    ):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most_of_it:
            raise UserError(f"{name}={str(value)[:40]} is not allowed; give a number from {least:g} to {most_of_it:g}.")


def which(listed: Any, model: str, host: str) -> tuple[str, str]:
    """(who runs the server, the model to ask for). Raises UserError where a model has to be chosen."""
    data = listed.get("data") if isinstance(listed, dict) else None
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    names = [entry["id"] for entry in entries if isinstance(entry.get("id"), str)]
    owners = [entry["owned_by"] for entry in entries if isinstance(entry.get("owned_by"), str)]
    owner = short(owners[0])[:40] if owners else ""
    if model or len(names) == 1:
        return owner, model or names[0]
    if not names:
        return owner, ""
    some = ", ".join(short(name)[:60] for name in names[:8])
    raise UserError(
        f"{host} offers {len(names)} models; choose one with --model: {some}{' …' if len(names) > 8 else ''}."
    )


def counters(text: str) -> dict[str, float]:
    """The sums of vLLM's counters of speculation in a page of metrics."""
    sums: dict[str, float] = {}
    for line in texts.lines(text)[:20_000]:
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0].removesuffix("_total")
        if name in COUNTERS:
            try:
                sums[name] = sums.get(name, 0.0) + float(value)
            except ValueError:
                continue
    return sums
