"""What a live run pays for being watched, measured:  python -m tests.page.live_cost 9 [case]

One process serves the page and runs the same prompt in four ways, in turns: the engine alone, in that process; the API
endpoint, which answers when the run is over; the events, as the page gets them but drawn by nobody, as if it were on
another machine; and a Chromium page that draws them. The run's time is `wall_seconds` of its trace, from the first step
to the end. Ratios are taken within a round, so that a machine that slows down for a while slows all.

Beside them are the CPU seconds of both processes, which other programs on the machine change less, and what the
server did for the page: bytes and messages, seconds of composing and journalling, and seconds in which Gradio took a
message, while the run went on in a thread of its own."""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.page.serving import answering, ask, chromium, cpu_here, process

WAYS = ("engine", "endpoint", "events", "page")
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "SmolLM2, greedy": (
        "greedy",
        "smollm2",
        "Write a short story about a lighthouse keeper and a whale.",
        {"max_new_tokens": 96},
    ),
    "tiny-dlm, 64 forwards": ("llada", "tiny-dlm", "add: 457 + 286", {"max_new_tokens": 64}),
}
TICK = os.sysconf("SC_CLK_TCK")
STREAM = re.compile(r'stream\\*": ?\\*"([\w-]{16,})')  # in JSON text within JSON


# --- the server's process


@dataclass
class Books:
    """What one run cost the server: seconds, but for the counts."""

    wall: float = 0.0
    model: float = 0.0
    steps: int = 0
    messages: int = 0
    size: int = 0
    composing: float = 0.0
    journal: float = 0.0
    waiting: float = 0.0
    cpu: float = 0.0


def serve(pipe: Any, case: str) -> None:
    """The page in this process. Answers `engine`, `next` (the run that ends next on the page), `cpu` and `end`."""
    slug, model, prompt, params = CASES[case]
    import engines
    from explorer.page.catalogue import Catalogue, Plan
    from explorer.page.limits import Limits
    from explorer.page.server import launch
    from explorer.page.starting import start
    from explorer.runs.gallery import Gallery

    folder = Path(mkdtemp()) / "traces"
    folder.mkdir()
    (folder / "0.json").write_text(engines.run(slug, model, prompt, params=params).to_json(), "utf-8")
    ended = watch()
    demo = launch(warm=False, traces=Gallery(folder), quiet=True)
    limits, catalogue = Limits.from_env(False), Catalogue.read(False)
    plan = Plan(slug, model, {**{p.name: p.default for p in catalogue.methods[slug].params}, **params})
    number, controls = next((i, fn.inputs) for i, fn in demo.fns.items() if fn.name == "run" and len(fn.inputs) == 7)
    values = [one.value for one in controls]  # as the page opens: the recorded run's settings in the first slot
    form = json.loads(values[3])
    assert [values[0], form["method"], form["model"]] == [prompt, slug, model], values[:4]

    def engine() -> Books:
        run = start(plan, prompt, 0, limits)
        for _ in run:
            pass
        return summary(run.trace())

    first = demo.local_url, number, [*values[:2], "1", *values[3:]]
    answering(pipe, first, engine=engine, next=lambda: ended.get(timeout=600), cpu=cpu_here)


def summary(trace: Any) -> Books:
    """The run's own times."""
    return Books(
        wall=trace.end.wall_seconds,
        model=sum(s.model_seconds + s.method_seconds for s in trace.steps),
        steps=len(trace.steps),
    )


def watch() -> Any:
    """Every feed keeps books from now on; returns the queue into which it puts them when its run has ended."""
    import queue

    from explorer.page.feed import Feed
    from explorer.page.handlers.endpoint import Endpoint
    from explorer.runs.journal import Journal

    ended: Any = queue.Queue()
    play, compose, write, decode = Feed.play, Feed._message, Journal.step, Endpoint.decode

    def timed(name: str, books: Books, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        setattr(books, name, getattr(books, name) + time.perf_counter() - began)
        return result

    def message(feed: Any, **parts: Any) -> str:
        text: str = timed("composing", feed.books, lambda: compose(feed, **parts))
        feed.books.messages += 1
        feed.books.size += len(text.encode())
        return text

    def played(feed: Any, *a: Any, **k: Any) -> Iterator[str]:
        feed.books = current.books = Books()
        for text in play(feed, *a, **k):
            timed_yield = time.perf_counter()
            yield text
            feed.books.waiting += time.perf_counter() - timed_yield
        own = summary(feed.trace)
        feed.books.wall, feed.books.model, feed.books.steps = own.wall, own.model, own.steps
        ended.put(feed.books)

    def step(journal: Any, one: Any) -> None:
        timed("journal", current.books, lambda: write(journal, one))

    def decoded(handlers: Any, *a: Any, **k: Any) -> Any:
        found = decode(handlers, *a, **k)
        own = Books(wall=found["end"]["wall_seconds"], steps=len(found["steps"]))
        own.model = sum(s["model_seconds"] + s["method_seconds"] for s in found["steps"])
        ended.put(own)
        return found

    class current:
        books = Books()

    decoded.__signature__ = __import__("inspect").signature(decode)  # type: ignore[attr-defined]
    decoded.__annotations__ = decode.__annotations__
    Feed.play, Feed._message, Journal.step, Endpoint.decode = played, message, step, decoded  # type: ignore[method-assign]
    return ended


# --- the visitor


@dataclass
class Visitor:
    """Asks for a run in each of the ways; one page stays open, and idle while the others run."""

    address: str
    number: int
    inputs: list[Any]
    page: Any
    received: list[int] = field(default_factory=list)  # bytes of the event stream of each run of the way `events`

    def endpoint(self) -> None:
        """Asks for a finished trace."""
        from gradio_client import Client

        prompt, form = self.inputs[0], json.loads(self.inputs[3])
        Client(self.address, verbose=False).predict(prompt=prompt, form=form, api_name="/decode")

    def events(self) -> None:
        """Joins the queue as the page does and reads the stream and the run's own stream to their ends."""
        import httpx

        session = uuid.uuid4().hex[:12]
        with httpx.Client(base_url=self.address, timeout=600) as client:
            body = {"data": self.inputs, "fn_index": self.number, "session_hash": session}
            client.post("/gradio_api/queue/join", json=body).raise_for_status()
            size = 0
            with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
                readers: list[threading.Thread] = []
                for line in stream.iter_lines():
                    size += len(line)
                    if not readers and (name := STREAM.search(line)):
                        readers.append(threading.Thread(target=self.steps, args=(name[1],)))
                        readers[0].start()
                    told = json.loads(line[5:]) if line.startswith("data:") else {}
                    if told.get("msg") == "process_completed":
                        assert told["success"], told
                        break
        assert readers, "the page was told of no stream"
        readers[0].join()
        self.received.append(size)

    def steps(self, name: str) -> None:
        """Reads the steps of a run beside Gradio's stream."""
        import httpx

        with httpx.stream("GET", f"{self.address}live/{name}", timeout=600) as stream:
            for _ in stream.iter_lines():
                pass

    def watch(self) -> None:
        """Presses Run; the page draws while others wait for the end."""
        self.page.get_by_role("button", name="Run", exact=True).click()

    def see_the_end(self, steps: int) -> None:
        """Waits until the player shows the last step."""
        self.page.locator(f"#panel-0 .dx-panel[data-state=done][data-step='{steps}']").wait_for(timeout=60_000)


def browser_cpu() -> float:
    """CPU seconds of the browsers that this process started: their processes, and theirs."""
    table = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, rest = (entry / "stat").read_text().rsplit(")", 1)
            except OSError:
                continue
            parts = rest.split()
            table[int(entry.name)] = (int(parts[1]), name.split("(", 1)[1], (int(parts[11]) + int(parts[12])) / TICK)

    def ours(pid: int) -> bool:
        return pid in table and (table[pid][0] == os.getpid() or ours(table[pid][0]))

    return sum(seconds for pid, (_, name, seconds) in table.items() if name.startswith("chrom") and ours(pid))


# --- the measurement


@dataclass
class Found:
    """One run: its way, the server's books, and CPU seconds of the browser meanwhile."""

    way: str
    books: Books
    browser: float


def measure(
    case: str, rounds: int, browser: Any, say: Callable[[str], None] = lambda text: None
) -> tuple[list[list[Found]], Visitor]:
    """`rounds` rounds, each with a run in every way, begun with another way each time."""
    with process(serve, case) as (pipe, _):
        address, number, inputs = pipe.recv()
        page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
        return measured(pipe, Visitor(address, number, inputs, page), rounds, say)


def measured(pipe: Any, visitor: Visitor, rounds: int, say: Callable[[str], None]) -> tuple[list[list[Found]], Visitor]:
    """The rounds at a page that is served."""
    page = visitor.page

    def one(way: str) -> Found:
        time.sleep(0.5)  # what the run before left behind
        cpu, shown = ask(pipe, "cpu"), browser_cpu()
        if way == "engine":
            books = ask(pipe, "engine")
        else:
            {"endpoint": visitor.endpoint, "events": visitor.events, "page": visitor.watch}[way]()
            books = ask(pipe, "next")
        if way == "page":
            visitor.see_the_end(books.steps)
        time.sleep(0.2)  # the last frames
        books.cpu = ask(pipe, "cpu") - cpu
        return Found(way, books, browser_cpu() - shown)

    page.goto(visitor.address + "?still")
    page.locator("#panel-0 .dx-panel[data-state=ready]").wait_for(timeout=120_000)
    page.locator("#count").get_by_label("1", exact=True).check()
    found = []
    for number in range(-1, rounds):  # the first round warms up
        shift = number % len(WAYS)
        found.append([one(way) for way in (*WAYS[shift:], *WAYS[:shift])])
        took = ", ".join(f"{run.way} {run.books.wall:.2f} s" for run in found[-1])
        say(f"round {number + 1} of {rounds}: {took}")
    page.context.close()
    visitor.received = visitor.received[1:]
    return found[1:], visitor


def report(case: str, found: list[list[Found]], visitor: Visitor) -> str:
    """The ratios with their spread, and where the server's part goes."""
    lines = [f"{case}: {len(found)} rounds; ratios to the engine alone within a round, median (lowest to highest)"]
    for way in WAYS:
        runs = [next(run for run in row if run.way == way) for row in found]
        base = [next(run for run in row if run.way == "engine") for row in found]
        wall, model, cpu = (
            spread([getattr(run.books, name) / getattr(b.books, name) for run, b in zip(runs, base, strict=True)])
            for name in ("wall", "model", "cpu")
        )
        own = [
            statistics.median(values)
            for values in ([r.books.wall for r in runs], [r.books.cpu for r in runs], [r.browser for r in runs])
        ]
        lines.append(
            f"  {way:9s} {own[0]:7.3f} s, ratio {wall}; of model and method {model}; CPU: server {own[1]:.2f} s, "
            f"ratio {cpu}, browser {own[2]:.2f} s"
        )
    for way in ("events", "page"):
        books = [run.books for row in found for run in row if run.way == way]
        size, messages, composing, journal, waiting, wall = (
            statistics.median(getattr(one, name) for one in books)
            for name in ("size", "messages", "composing", "journal", "waiting", "wall")
        )
        lines.append(
            f"  {way:9s} {messages:.0f} messages, {messages / wall:.1f} a second, {size / 1000:.0f} kB, "
            f"{size / books[0].steps:.0f} bytes a step; "
            f"composing {1000 * composing:.1f} ms, journal {1000 * journal:.1f} ms, Gradio took them in "
            f"{1000 * waiting:.1f} ms ({100 * waiting / wall:.1f} %)"
        )
    lines.append(
        f"  beside the run's own stream: {statistics.median(visitor.received) / 1000:.0f} kB in the event stream"
    )
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Median, lowest and highest."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main(rounds: int, only: str = "") -> None:
    """Measure every case, or those whose name holds `only`, and print."""
    with chromium() as browser:
        for case in (case for case in CASES if only in case):
            print(report(case, *measure(case, rounds, browser, lambda text: print(text, file=sys.stderr))), flush=True)
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9, *sys.argv[2:3])
