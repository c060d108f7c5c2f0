"""Many visitors at once, measured:  python -m tests.page.visitors 20

The page is served by a process of its own. Visitors open it over HTTP, fetch the player, take a recorded trace and then
only watch, which is what
their browsers do with it: replay asks the server for nothing. Some of them are real browsers, whose frames are counted
while they play. Meanwhile one more visitor runs a method live, in turns with and without the others: that gives the
slow-down on whatever machine this is."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.page.serving import answering, ask, chromium, cpu_here, numbers_of, process, resident

ROUNDS = 6
FRAMES = """(ms) => new Promise((done) => {
  const times = [];
  const next = (now) => { times.push(now);
    now - times[0] < ms ? requestAnimationFrame(next) : done(times.slice(1).map((t, i) => t - times[i])); };
  requestAnimationFrame(next);
})"""


def serve(pipe: Any) -> None:
    """The page in this process: sends its address and the numbers of its handlers, then answers `memory` and `cpu`."""
    import engines
    from explorer.page.server import launch
    from tests.page.conftest import first_model

    demo = launch(warm=False, public=True, quiet=True)
    engines.load_model(first_model("masked"))
    answering(pipe, (demo.local_url, numbers_of(demo)), memory=resident, cpu=cpu_here)


@dataclass
class Report:
    """What was measured: seconds, megabytes per visitor, a ratio of median run times, seconds between frames, and what
    failed."""

    visitors: int
    answers: list[float] = field(default_factory=list)
    megabytes: float = 0.0
    slow_down: float = 1.0
    run_seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    frames: list[float] = field(default_factory=list)
    asked_while_playing: int = 0
    server_cpu_while_watching: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        quick = sorted(self.answers)
        alone, beside = (statistics.median(some) for some in self.run_seconds)
        lines = [
            f"{self.visitors} visitors, {len(self.failures)} failures, {len(quick)} answers: median "
            f"{1000 * quick[len(quick) // 2]:.0f} ms, "
            f"95 % within {1000 * quick[int(0.95 * (len(quick) - 1))]:.0f} ms",
            f"server memory: {self.megabytes:.2f} MB more per visitor; server CPU while all watch: "
            f"{100 * self.server_cpu_while_watching:.1f} % of a core",
            f"live run: {alone:.2f} s alone, {beside:.2f} s beside the watching visitors, "
            f"{100 * (self.slow_down - 1):+.1f} %",
        ]
        if self.frames:
            slow = sorted(self.frames)
            lines.append(
                f"replay in browsers: {1000 / statistics.median(slow):.0f} frames per second (median), 95 % of frames "
                "within "
                f"{slow[int(0.95 * (len(slow) - 1))]:.0f} ms, {self.asked_while_playing} requests while playing"
            )
        return "\n".join([*lines, *self.failures[:5]])


class Visitor:
    """One page over HTTP, with the session that Gradio's own client would have."""

    def __init__(self, address: str, report: Report) -> None:
        self.client, self.report, self.session = (
            httpx.Client(base_url=address, timeout=60),
            report,
            uuid.uuid4().hex[:12],
        )

    def get(self, path: str) -> httpx.Response:
        return self._timed(lambda: self.client.get(path))

    def open(self) -> None:
        """The page, its configuration and the player."""
        from explorer.page import files
        from explorer.page.parts import PLAYER

        self.get("/")
        self.get("/config")
        for file in sorted(PLAYER.rglob("*.js")):
            self.get("/" + files.address(file))

    def play(self, number: int) -> None:
        """Take a recorded trace, as a click on its card does."""
        body = {"data": [], "fn_index": number, "session_hash": self.session}
        answer = self._timed(lambda: self.client.post("/gradio_api/run/predict", json=body))
        if answer.status_code != 200 or '"trace"' not in answer.json()["data"][0]:
            self.report.failures.append(f"a card answered {answer.status_code}: {answer.text[:200]}")

    def _timed(self, ask: Any) -> httpx.Response:
        began = time.monotonic()
        answer = ask()
        self.report.answers.append(time.monotonic() - began)
        if answer.status_code != 200:
            self.report.failures.append(f"{answer.request.url.path} answered {answer.status_code}")
        return answer


def live(address: str) -> float:
    """Seconds of the model in one live run through the public endpoint (LLaDA-like, 48 forwards)."""
    from gradio_client import Client

    from tests.page.conftest import first_model, methods_of

    client = Client(address, verbose=False)
    trace = client.predict(
        methods_of("masked")[0], first_model("masked"), "add: 457 + 286", {"max_new_tokens": 48}, 0, api_name="/decode"
    )
    return sum(step["model_seconds"] + step["method_seconds"] for step in trace["steps"])


def measure(visitors: int, browsers: int, rounds: int = ROUNDS, browser: Any = None) -> Report:
    """Serve, visit, measure. browser: a Playwright browser for the visitors that are real ones."""
    report, pages = Report(visitors), list[Any]()
    with process(serve) as (pipe, _):
        address, numbers = pipe.recv()
        plays = numbers["_player.<locals>.play"]
        Visitor(address, Report(0)).open()  # whatever is made once is made now
        live(address)
        before = ask(pipe, "memory")
        people = [Visitor(address, report) for _ in range(visitors - browsers)]
        together([lambda v=v, i=i: (v.open(), v.play(plays[i % len(plays)])) for i, v in enumerate(people)], report)
        try:
            pages = [open_page(browser, address) for _ in range(browsers)]
            report.megabytes = max(0.0, ask(pipe, "memory") - before) / visitors
            for _ in range(rounds):
                report.run_seconds[0].append(live(address))
                for page in pages:
                    start(page)
                report.run_seconds[1].append(live(address))
            alone, beside = (statistics.median(some) for some in report.run_seconds)
            report.slow_down = beside / alone
            watch(pages, report, lambda: ask(pipe, "cpu"))
        finally:
            for page in pages:
                page.context.close()
    return report


def together(jobs: list[Any], report: Report) -> None:
    """All at once; what fails is noted."""

    def one(job: Any) -> None:
        try:
            job()
        except Exception as error:
            report.failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_page(browser: Any, address: str) -> Any:
    page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
    page.goto(address + "?still")
    page.locator("#panel-0 .dx-panel[data-state=ready]").wait_for(timeout=120_000)
    return page


def start(page: Any) -> None:
    """Play from the beginning."""
    page.get_by_label("Place in the run", exact=True).press("Home")
    page.get_by_role("button", name="Play", exact=True).click()


def watch(pages: list[Any], report: Report, cpu: Any) -> None:
    """Everybody only watches: frames of the browsers, what they ask for, and what the server spends."""
    seconds, asked = 2.0, []
    began, used = time.monotonic(), cpu()
    for page in pages:
        page.on("request", lambda request: asked.append(request.url))
        start(page)
        report.frames += page.evaluate(FRAMES, 1000 * seconds)
    if not pages:
        time.sleep(seconds)
    report.server_cpu_while_watching = (cpu() - used) / (time.monotonic() - began)
    report.asked_while_playing = len([url for url in asked if "heartbeat" not in url])


def main(visitors: int, browsers: int) -> None:
    """Print the report."""
    with chromium() as browser:
        print(measure(visitors, browsers, browser=browser))
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 2)
