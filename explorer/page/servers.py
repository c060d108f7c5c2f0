"""*From a running server*: the prompt is answered by a server that the person names, and plays next to what is shown.
At home only: a public host asks nobody."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import gradio as gr

from engines import UserError
from explorer.attach import FORMATS, KEY_VARIABLE, Attached, key_for, read_address
from explorer.page.feed import Feed
from explorer.page.handlers import Handlers, Outputs
from explorer.page.parts import queued, refusals, say
from explorer.page.run_limits import short

PATIENCE = 25.0  # seconds of silence
AT_ONCE = 4  # servers that are asked at the same time, by all pages together: they wait elsewhere, and for no model
TOKENS = 128
HELP = f"""## From a running server
The prompt above is sent to a server that you run or may use (vLLM, SGLang, llama.cpp, `transformers serve`, any with
OpenAI's interface), and its answer plays next to what is shown. Seconds are those until a token was here, network and
queue included; connecting is apart. Its key, if it wants one, is read from the environment variable `{KEY_VARIABLE}`.
"""
CLOSED = "This page is a public host, which asks no server; start the program where only you can reach it."


class Servers:
    """The handler of the button."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers

    @refusals(1, 3)
    def ask(
        self,
        request: gr.Request,
        prompt: Any = None,
        url: Any = None,
        model: Any = None,
        api: Any = None,
        most: Any = None,
    ) -> Iterator[Outputs]:
        """Ask as a run does: yields before anything is sent, streams to the bus, and Stop ends it."""
        session, limits = self.handlers.session(request), self.handlers.limits
        if limits.public:
            raise UserError(CLOSED)
        if session.running:
            raise UserError("a run is going on; stop it or wait for its end, then ask a server.")
        prompt, address = limits.check_prompt(prompt), read_address(url)
        if not isinstance(model, str) or (api and api not in FORMATS):
            raise UserError(f"the model or the interface ('{short(api)}') is not understood; choose them again.")
        if not isinstance(most, (int, float)) or most != most or not 1 <= most <= limits.new_tokens:
            raise UserError(f"max tokens={short(most)} is not allowed; give a number from 1 to {limits.new_tokens}.")
        key = key_for(address)
        slot, keep = self.handlers.free_player(session), self.handlers.my_runs.keep_for(request)
        feed = Feed(session.begin(), slot, address.host, keep)
        options: dict[str, Any] = {"api": api or "", "key": key, "max_tokens": int(most), "max_seconds": limits.seconds}

        def begin() -> Attached:
            return Attached(url, model.strip(), prompt, patience=PATIENCE, stop=feed.over, **options)

        yield from self.handlers.play_in(
            session,
            feed,
            f"Asking {address.host}.",
            lambda: feed.play(begin, f"the server {address.host}", lock=nullcontext()),
            lambda: self._summary(feed, address.host),
        )

    @staticmethod
    def _summary(feed: Feed, host: str) -> str:
        if feed.failure:
            return say(f"{host} was not watched: {feed.failure}", "error")
        assert feed.trace
        if feed.trace.end.message:
            return say(feed.trace.end.message, "ok" if feed.trace.end.reason in ("complete", "budget") else "error")
        return say(f"Answered by {host}, in player {feed.slot + 1}.", "ok", f"panel-{feed.slot}")


def section(handlers: Handlers, prompt: gr.Textbox, outputs: list[Any]) -> Any:
    """The fields and the button; on a public host a sentence alone. Returns the event, for Stop, or None."""
    if handlers.limits.public:
        return None
    gr.Markdown(HELP)
    with gr.Row():
        url = gr.Textbox(label="Address", placeholder="http://127.0.0.1:8000", max_length=2000, elem_id="server-url")
        model = gr.Textbox(label="Model", info="empty where it offers one", max_length=300, elem_id="server-model")
        choices = [("as the address says", ""), *((made.title, name) for name, made in FORMATS.items())]
        api = gr.Dropdown(choices, value="", label="Interface", elem_id="server-api")
        most = gr.Number(TOKENS, label="Max tokens", precision=0, elem_id="server-tokens")
    ask = gr.Button("Ask the server", elem_id="server-ask")
    return ask.click(
        Servers(handlers).ask,
        [prompt, url, model, api, most],
        outputs,
        preprocess=False,
        show_progress_on=[outputs[1]],
        **queued("servers", AT_ONCE),
    )
