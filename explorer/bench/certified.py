"""What `certify` found, as a record: how many texts of each lossless method are its control's, token by token."""

from collections.abc import Iterable
from typing import Any

import msgspec

from engines import ASSETS, ModelRecord
from explorer.figures.compare import Certificate

FOLDER = ASSETS / "bench" / "certified"


class Kept(msgspec.Struct, frozen=True):
    """One method on all prompts. same: prompts with the control's very tokens; tokens: of the control, on all prompts;
    first: the places of the first differing tokens, counted from 0."""

    method: str
    params: dict[str, Any]
    prompts: int
    same: int
    tokens: int
    first: list[int] = []


class Certified(msgspec.Struct, frozen=True):
    """A certificate in a file. network: each control against the network's own forward without a cache. server: of a
    GGUF file, each control against what llama.cpp's own server writes; its attention rounds in another way, so a text
    may part from it where two tokens are nearly tied. command, date: what was typed, and when. partial: it was stopped;
    `kept`, `network` and `server` hold what was finished."""

    model: ModelRecord
    machine: str
    versions: dict[str, str]
    max_new_tokens: int
    kept: list[Kept]
    network: list[Kept] = []
    server: list[Kept] = []
    command: str = ""
    date: str = ""
    partial: bool = False


def kept(method: str, params: dict[str, Any], certificates: Iterable[Certificate]) -> Kept:
    """Certificates of one method, counted."""
    each = list(certificates)
    first = [certificate.at for certificate in each if certificate.at is not None]
    return Kept(
        method, params, len(each), len(each) - len(first), sum(certificate.tokens for certificate in each), first
    )
