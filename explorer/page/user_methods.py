"""*Your own method* on the Methods tab: the templates as `decoding-explorer template` prints them, and how the page is
started with one."""

import gradio as gr

from engines import ASSETS
from explorer.page.handlers import Handlers

HELP = """#### Your own method
Save a template as `my.py`, change it, and start the page with it: `decoding-explorer page --method-file my.py` (or
`python app.py --method-file my.py`). It
then is among the methods of every slot, with all views, race, forks and sweeps. The commands `run`, `compare`,
`fork`, `sweep` and `bench` take
`--method-file` too. A mistake is one sentence with its line.

**The file is run as it is, with everything that you may do: load only files that you wrote or have read.**

All of this needs the program on your own computer: `pip install -c constraints.txt -e .` in a copy of its repository.
"""
CLOSED = "This page is a public host, which takes none; start the program where only you can reach it."


def section(handlers: Handlers) -> None:
    """What to do, the files that are loaded, and the templates."""
    loaded = ", ".join(f"`{info.slug}`" for info in handlers.catalogue.methods.values() if info.file)
    here = CLOSED if handlers.limits.public else f"Loaded now: {loaded}" if loaded else "None is loaded now."
    with gr.Accordion("Your own method", open=False, elem_id="user-methods"):
        gr.Markdown(HELP)
        gr.Markdown(here)
        for path in sorted((ASSETS / "templates").glob("*.py"), reverse=True):
            gr.Markdown(
                f"`decoding-explorer template --kind {path.stem} > my.py`\n```python\n{path.read_text('utf-8')}```"
            )
