"""What opened traces leave behind, over HTTP:  python -m tests.page.memory 500

Each time a visitor opens a trace of two million characters, which a public page just takes, and closes the page: its
heartbeat ends. The server is a process of its own; its resident memory is read before and after."""

import json
import sys
import tempfile
import time

from tests.page.serving import ask, process, resident
from tests.page.soak import TAKE_IN, Beat, Caller, serve

CHARACTERS = 2_000_000
WARM = 20  # opens before the first reading: libraries are loaded, the allocator has its pools


def long_trace(characters: int = CHARACTERS) -> str:
    """A recorded trace whose last steps come again, numbered, until the text is nearly so long."""
    from explorer.runs.gallery import gallery

    card = min((card for card in gallery().cards if card.family == "diffusion"), key=lambda card: card.steps)
    body = json.loads(gallery().get(card.id).to_json())
    *first, last = body["steps"]
    each = len(json.dumps(last, separators=(",", ":"))) + 8
    count = (characters - len(json.dumps(body))) // each
    body["steps"] = [*first, *({**last, "index": len(first) + i} for i in range(count))]
    text = json.dumps(body, separators=(",", ":"))
    assert 0.9 * characters < len(text) <= characters
    return text


def open_and_close(url: str, number: int, text: str) -> str:
    """One visit; returns what the status line said."""
    caller = Caller(url, "10.3.0.1")
    beat = Beat(url, caller.session)
    assert beat.began.wait(60)
    while (answer := caller.call(number, text)).status_code == 429:  # more calls than one address may make
        time.sleep(1)
    beat.close()
    caller.client.close()
    said: str = json.loads(answer.json()["data"][1])["text"]
    return said


def measure(count: int, characters: int = CHARACTERS, warm: int = WARM) -> tuple[float, float, int]:
    """Megabytes before and after so many opens and closes, and the pages that the server remembers in the end."""
    text = long_trace(characters)
    with tempfile.TemporaryDirectory() as folder, process(serve, folder) as (pipe, server):
        url, numbers = pipe.recv()
        before = 0.0
        for visit in range(-warm, count):
            if not visit:
                before = resident(server)
            said = open_and_close(url, numbers[TAKE_IN][0], text)
            assert said.startswith("Opened in player"), said
        pages = -1
        for _ in range(200):  # a page is forgotten a moment after its heartbeat has ended
            if not (pages := ask(pipe, "pages")):
                break
            time.sleep(0.2)
        return before, resident(server), pages


def main(count: int) -> None:
    before, after, pages = measure(count)
    print(f"{count} opens and closes of a trace of {CHARACTERS:,} characters: {before:.0f} MB before, {after:.0f} MB")
    print(f"after, {after - before:+.0f} MB; {pages} pages are remembered")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
