"""The endpoint `decode` for programs."""

import json
from collections.abc import Mapping
from contextlib import closing

import gradio as gr

from engines import UserError
from explorer.page.catalogue import Plan
from explorer.page.feed import MODEL_LOCK
from explorer.page.form import read
from explorer.page.handlers.desk import Desk
from explorer.page.limits import check_seed
from explorer.page.starting import start


class Endpoint:
    """Decodes for a program, without a page."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def decode(
        self,
        method: str = "",
        model: str = "",
        prompt: str = "",
        params: dict = {},  # type: ignore[type-arg]  # noqa: B006 - Gradio reads this signature
        seed: int = 0,
        form: dict = {},  # type: ignore[type-arg]  # noqa: B006
    ) -> dict:  # type: ignore[type-arg]
        """Decode a prompt and return the finished trace as JSON. What runs is a slot's form, an object with method,
        model and params, or these three by themselves."""
        try:
            prompt, seed = self.desk.limits.check_prompt(prompt), check_seed(seed)
            plan = self._plan(method, model, params, form)
            with MODEL_LOCK:
                with closing(start(plan, prompt, seed, self.desk.limits)) as run:
                    for _ in run:
                        pass
                trace = run.trace()
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return json.loads(trace.to_json())

    def _plan(self, method: object, model: object, params: object, form: object) -> Plan:
        """What the endpoint was given, as a plan. Raises UserError."""
        if form:
            if method or model or params:
                raise UserError("both a form and a method, model or params are given; give either.")
            return self.desk.catalogue.read_form(read(form))
        if not isinstance(params, Mapping):
            raise UserError('params is not an object; give names and values such as {"max_new_tokens": 32}.')
        if not isinstance(model, str):
            raise UserError("the model is not text; give its name.")
        return self.desk.catalogue.plan(self.desk.catalogue.known(method).slug, model, params)
