"""What the commands share: files in and out, tables, text that is safe in a terminal."""

import argparse
import datetime
import gzip
import io
import json
import os
import re
import select
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from engines import Trace, TraceError, UserError, texts, visible
from explorer.arguments import BAD_INPUT
from explorer.words import cell, printable

MAX_FILE_BYTES = (
    65 * 2**20
)  # a little more than the largest trace that is read, so that the reader can say how large it is
MAX_PROMPT_BYTES = 2**20
PIPE_SECONDS = 10.0  # that a pipe may stay silent before it is taken for one that nobody writes
GZIP_MAGIC = b"\x1f\x8b"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def read_bytes(name: str, limit: int) -> bytes:
    """At most `limit` + 1 bytes of a file; '-' is standard input. Raises UserError where there is nothing to read."""
    if name == "-":
        return sys.stdin.buffer.read(limit + 1)
    path = _path(name)
    if path.is_dir():
        raise UserError(f"'{name}' is a folder; give a file.")
    if not path.exists():
        raise UserError(f"there is no file '{name}'.")
    with open(path, "rb", opener=_at_once) as file:
        if path.is_fifo():
            _wait_for(file, name)
        return file.read(limit + 1)


def text_of(data: bytes, name: str) -> str:
    """The text in a file. Raises UserError that names its encoding where it cannot be read in it."""
    try:
        return texts.decoded(data)
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper()
        raise UserError(f"'{name}' is not {encoding} text (byte {error.start}); save it as UTF-8.") from None


def _path(name: str) -> Path:
    """A file that was named. Raises UserError for a name that no file can have."""
    if not name:
        raise UserError("the name of the file is empty; give one, or - for standard input or output.")
    if "\0" in name or any(len(os.fsencode(part)) > 255 for part in Path(name).parts):
        raise UserError(f"'{name[:60]}...' can be no file: a name has at most 255 bytes.")
    return Path(name)


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for whoever writes a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _wait_for(file: IO[bytes], name: str) -> None:
    """Read a pipe like a file as long as somebody writes it. Raises UserError where nobody does."""
    ready, _, _ = select.select([file], [], [], PIPE_SECONDS)
    os.set_blocking(file.fileno(), True)
    if not ready:
        raise UserError(f"nothing came through the pipe '{name}' within {PIPE_SECONDS:g} seconds; give a file.")


def read_traces(names: Sequence[str]) -> list[Trace]:
    """The traces in these files. Raises UserError that names the file and says what is wrong with it."""
    return [read_trace_file(name) for name in names]


def read_trace_file(name: str) -> Trace:
    """One trace, plain or gzipped. Raises UserError."""
    data = read_bytes(name, MAX_FILE_BYTES)
    try:
        return Trace.from_json(unpacked(data))
    except TraceError as error:
        raise UserError(f"'{name}' cannot be read: {error}.") from None
    except (ValueError, RecursionError, OverflowError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"'{name}' is damaged and cannot be read as a trace: {error}.") from None


def unpacked(data: bytes) -> bytes:
    """What a file holds, unpacked as far as a trace may reach where it is gzipped."""
    if data[:2] != GZIP_MAGIC:
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(MAX_FILE_BYTES)


def check_target(*names: str | None) -> None:
    """Refuse a path that cannot be written before the work begins. Raises UserError."""
    for name in names:
        if name is None or name == "-":
            continue
        path = _path(name)
        if path.is_fifo() and path.parent != Path("/dev/fd"):
            raise UserError(f"'{name}' is a pipe, which is not written; write to - and pipe that.")
        if path.is_dir():
            raise UserError(f"'{name}' is a folder; give the name of a file to write.")
        if not path.parent.is_dir():
            raise UserError(f"there is no folder '{path.parent}' to write '{path.name}' into; make it first.")


def signed(measurement: Any, args: argparse.Namespace) -> Any:
    """A measurement with the command that made it, and the day."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return msgspec.structs.replace(measurement, command=args.typed, date=day)


def write(name: str, text: str) -> None:
    """Text to a file, compressed where its name ends in .gz, or to standard output for '-', there with its control
    characters as JSON writes them."""
    whole = (text if text.endswith("\n") else text + "\n").encode()
    if name == "-":
        print(_escaped(text))
    else:
        write_bytes(name, gzip.compress(whole, mtime=0) if name.endswith(".gz") else whole)


def write_json(target: str | None, record: Any) -> None:
    """A measurement as JSON: to standard output for '-', else to a file; nothing without one."""
    if target is None:
        return
    write(target, msgspec.json.format(msgspec.json.encode(record), indent=2 if target == "-" else 1).decode())


def write_bytes(name: str, data: bytes) -> None:
    """To a file, or to standard output for '-'. Raises OSError, which names the file also where the system does not: a
    disk that is full tells no name."""
    try:
        if name == "-":
            sys.stdout.buffer.write(data)
        else:
            Path(name).write_bytes(data)
    except OSError as error:
        error.filename = error.filename or name
        raise


def print_json(value: Any, code: int = 0) -> int:
    """Indented JSON of structs and plain values, sets sorted, a type as its name. Returns the exit status."""
    plain = msgspec.to_builtins(value, order="deterministic", enc_hook=lambda kind: kind.__name__)
    print(_escaped(json.dumps(plain, indent=2, ensure_ascii=False)))
    return code


def print_answer(text: str) -> None:
    """What a model or a server wrote, on its lines, so that no terminal obeys it."""
    print(visible(text))


def _escaped(text: str) -> str:
    """A file's text for standard output, which may be a terminal: control characters as JSON writes them, so that in
    JSON each value stays what it is."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as their content; numbers to the right."""
    heads, rows = [cell(head) for head in heads], [[cell(value) for value in row] for row in rows]
    kinds = [all(_is_number(row[i]) for row in rows) for i in range(len(heads))]
    widths = [max(len(head), *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(heads)]
    for row in [list(heads), *rows]:
        print(
            "  ".join(
                text.rjust(w) if right else text.ljust(w) for text, w, right in zip(row, widths, kinds, strict=True)
            ).rstrip()
        )


def print_lines(lines: Sequence[Mapping[str, Any]]) -> None:
    """A table of lines that all have the same keys, which are its heads."""
    print_table(list(lines[0]), [list(line.values()) for line in lines])


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("e-", "", 1).isdigit()


def say(text: str) -> None:
    """One line on standard error, at once, whatever the text holds."""
    print(printable(text), file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """What a person should know beside the result, on standard error."""
    say(f"decoding-explorer: {text}")


def complain(message: str) -> int:
    """What is wrong, on standard error. Returns the exit status of bad input."""
    remark(" ".join(message.split()))
    return BAD_INPUT
