"""Starting the page: one `launch` with the guard in front, and the heavy imports in the background afterwards."""

import importlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before Gradio is imported: no call home
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: its threads do not spin on the cores that draw

import gradio as gr
import gradio.blocks
from starlette.middleware import Middleware

import engines
from explorer.lecture import chosen
from explorer.page import client, error_log, files, prefetch, starting, visitor_address
from explorer.page.blocks import build
from explorer.page.catalogue import Catalogue
from explorer.page.compression import Packed
from explorer.page.event_stream import STREAMS
from explorer.page.feed import MODEL_LOCK
from explorer.page.guard import Guard
from explorer.page.handlers import Handlers
from explorer.page.memory import REMEMBERED, Owners, give_back, keep_no_values
from explorer.page.run_limits import Limits
from explorer.page.theme import css, theme
from explorer.page.visitor_limits import Budget, Connections
from explorer.runs.gallery import Gallery, gallery

SESSIONS = 200  # whose components Gradio remembers
ANNOUNCED = {"common.complete": "Done"}
"""What Gradio 6.31 tells screen readers when an event is over, and has no words for: they heard the name itself."""


def launch(
    *,
    block: bool = False,
    warm: bool = True,
    public: bool = False,
    traces: Gallery | None = None,
    lecture: str = "",
    **options: Any,
) -> gr.Blocks:
    """Build the page and start its server; `options` go to Gradio's `launch`. With `warm`, torch is imported once the
    server answers, and a model is loaded when it is chosen. `traces` replaces the gallery that ships with the program;
    `public`: strangers come, so that the limits of a public page hold; `lecture`: the file of what lecture mode shows
    (see `explorer.lecture.chosen`)."""
    limits, chosen_lecture = Limits.from_env(public), chosen(lecture)
    limits.check_methods([str(path) for path in engines.extra_methods()])  # before one of them is run
    if starting.lent():
        starting.decorated(limits.seconds)  # which wants to be seen before the page is up
    limits.check_methods([info.file for info in engines.list_methods() if info.file])
    handlers = Handlers(traces or gallery(), Catalogue.read(limits.public, limits.models, limits.new_tokens), limits)
    with _one_app():
        demo = build(handlers, chosen_lecture, prefetch.of(handlers) if warm else None)
        demo.queue(max_size=limits.waiting, api_open=False)  # nobody passes the queue
    error_log.install()
    client.install(files.PREFIX)
    readers, owners = visitor_address.Readers(), Owners(REMEMBERED)
    if limits.public:
        visitor_address.look_after(demo._queue, readers)
    guard = Middleware(
        Guard,
        hosts=_hosts(options.get("server_name")),
        trace_characters=limits.trace_characters,
        queue=demo._queue,
        readers=readers,
        owners=owners,
        budget=Budget() if limits.public else None,
    )
    demo.launch(
        prevent_thread_lock=True,
        theme=theme(),
        css=css(),
        app_kwargs={"middleware": [guard, Middleware(Packed)], "openapi_url": None},
        enable_monitoring=False,
        run_history=False,
        max_file_size="1mb",
        show_error=False,
        ssr_mode=False,
        state_session_capacity=SESSIONS,
        pwa=False,
        share=False,
        footer_links=[],
        i18n=gr.I18n(en=ANNOUNCED),  # the fallback of all languages; ours are put in its place on the page
        **options,
    )
    handlers.sessions.is_open = readers.at_page
    keep_no_values(demo, owners, readers.at_page)
    give_back()
    if limits.public and demo.server is not None:
        Connections(demo.server).watch()
    demo.app.router.routes[:0] = [STREAMS.route(), *files.mounts()]  # before Gradio's, which answer for every path
    if warm:
        threading.Thread(target=_warm, name="warm", daemon=True).start()
    if block:
        demo.block_thread()
    return demo


@contextmanager
def _one_app() -> Iterator[None]:
    """Inside, pages are composed and given their queues without an app of eighty routes, which Gradio makes three times
    before `launch` makes the only one that stays."""
    app: Any = gradio.blocks.App
    real = app.__dict__["create_app"]
    app.create_app = staticmethod(lambda *given, **options: None)
    try:
        yield
    finally:
        app.create_app = real


def serve(**options: Any) -> None:
    """Start the page and stay until interrupted. GRADIO_SERVER_NAME, GRADIO_SERVER_PORT and EXPLORER_* are read from
    the environment."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    launch(block=True, warm=os.environ.get("EXPLORER_WARM", "1") != "0", **options)


def _hosts(server_name: str | None) -> set[str]:
    """Names this server answers for. Behind the proxy of a Space any name may arrive, and strangers are expected
    there."""
    if os.environ.get("SPACE_ID"):
        return set()
    named = [server_name or os.environ.get("GRADIO_SERVER_NAME", ""), *os.environ.get("EXPLORER_HOSTS", "").split(",")]
    return {"localhost", "127.0.0.1", "::1"} | {name.strip().lower() for name in named if name.strip()}


def _warm() -> None:
    for module in prefetch.HEAVY:
        with MODEL_LOCK:  # a run that begins meanwhile would meet a half-imported transformers
            importlib.import_module(module)
