"""Method slots: a method, a model of the kind it needs, and one control per declared parameter.

A slot owns a pool of controls (as many of each sort as the most demanding method has); choosing a method relabels them from its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from msgspec.structs import replace

import engines
from engines import MethodInfo, Param, Trace, UserError
from explorer.page import bundles
from explorer.page.limits import NEW_TOKENS, SLOTS

SORTS = {"int": "number", "float": "number", "choice": "choice", "bool": "switch", "text": "text"}  # parameter kind -> control
LENGTH = "max_new_tokens"  # the one parameter that every method has
ORDER = ("number", "choice", "switch", "text")


@dataclass(frozen=True)
class Plan:
    """What one slot is asked to run."""

    method: str
    model: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Catalogue:
    """Methods and models that this page offers."""

    methods: dict[str, MethodInfo]
    models: tuple[Any, ...]
    open: bool  # whether a model that is not listed may be named (hub id or folder), and a file as a parameter

    @classmethod
    def read(cls, public: bool, allowed: Sequence[str] = (), new_tokens: int = NEW_TOKENS) -> Catalogue:
        """Ask `engines`; loads neither torch nor a model. allowed: names of models, all if empty. new_tokens: the longest answer.

        Raises UserError where a name of `allowed` is not listed."""
        models = tuple(engines.list_models())
        if unknown := sorted(set(allowed) - {model.name for model in models}):
            raise UserError(f"EXPLORER_MODELS names '{unknown[0]}', which is not listed; choose from {', '.join(model.name for model in models)}.")
        methods = {info.slug: _narrowed(info, new_tokens, files=not public) for info in engines.list_methods()}
        return cls(methods, tuple(model for model in models if not allowed or model.name in allowed), not (public or allowed))

    @property
    def pool(self) -> list[str]:
        """The sorts of a slot's controls, in order: enough of each for every method."""
        need = {sort: max((sum(SORTS[p.kind] == sort for p in info.params) for info in self.methods.values()), default=0) for sort in ORDER}
        return [sort for sort in ORDER for _ in range(need[sort])]

    def placed(self, info: MethodInfo) -> list[Param | None]:
        """For each control of the pool, the parameter it shows for this method."""
        waiting = {sort: [p for p in info.params if SORTS[p.kind] == sort] for sort in ORDER}
        return [waiting[sort].pop(0) if waiting[sort] else None for sort in self.pool]

    def model_choices(self, kind: str) -> list[tuple[str, str]]:
        """(label, name) of the models of a kind."""
        notes = {"download": " (downloaded at its first run)"}
        return [(model.name + notes.get(model.where, ""), model.name) for model in self.models if model.kind == kind]

    def method_choices(self) -> list[tuple[str, str]]:
        """(label, slug), annotated with the kind of model that is needed."""
        return [(f"{info.title} · {info.kind} model", info.slug) for info in self.methods.values()]

    def defaults(self, opening: Sequence[Trace]) -> list[Plan]:
        """The slots as the page opens: the settings of the opening traces, then masked methods, controls (no baseline) first, then the rest."""
        plans = [plan for trace in opening if (plan := self.repeat(trace))]
        used = {plan.method for plan in plans}
        rest = sorted(self.methods.values(), key=lambda info: (info.kind != "masked", info.baseline is not None))
        plans += [Plan(info.slug, self.first_model(info), {}) for info in rest if info.slug not in used]
        return [plans[i % len(plans)] for i in range(SLOTS)] if plans else []

    def repeat(self, trace: Trace, named: Mapping[str, str] = {}) -> Plan | None:
        """What runs that trace again; None if its method or model is not known here. named: a model's own name -> what loads it."""
        header = trace.header
        model = named.get(header.models[0].name, header.models[0].name) if header.models else ""
        known = {one.name for one in self.models} | ({*named.values()} if self.open else set())
        return Plan(header.method, model, header.params) if header.method in self.methods and model in known else None

    def first_model(self, info: MethodInfo) -> str:
        """The name of the first model that fits, or nothing."""
        fitting = self.model_choices(info.kind)
        return fitting[0][1] if fitting else ""

    def read_slot(self, values: Sequence[Any]) -> Plan:
        """A slot's component values as a plan. Raises UserError for whatever can be refused before a model is loaded."""
        slug, model, *rest = values
        info = self.known(slug)
        if not isinstance(model, str) or not model.strip():
            fitting = ", ".join(name for _, name in self.model_choices(info.kind))
            raise UserError(f"no model is chosen; '{slug}' needs a {info.kind} model: {fitting or 'none is installed here'}.")
        kind = next((one.kind for one in self.models if one.name == model.strip()), info.kind)
        if kind != info.kind:
            fitting = ", ".join(name for _, name in self.model_choices(info.kind))
            raise UserError(f"'{slug}' needs a {info.kind} model, {model.strip()} is {kind}; choose one of {fitting}.")
        given = {p: value for p, value in zip(self.placed(info), rest, strict=True) if p}
        plan = self.plan(slug, model.strip(), {param.name: value for param, value in given.items()})
        for param, value in given.items():
            param.check(value)
        return plan

    def known(self, slug: object) -> MethodInfo:
        """The declaration of a method. Raises UserError for anything that is no slug of one."""
        if not isinstance(slug, str) or slug not in self.methods:
            raise UserError(f"unknown method '{str(slug)[:60]}'; choose one of {', '.join(self.methods)}.")
        return self.methods[slug]

    def plan(self, slug: str, model: str, params: Mapping[str, Any]) -> Plan:
        """What may run here: a listed model where strangers come, no file of this machine, and an answer of a bounded length. Raises UserError;
        all else is checked by `engines`."""
        if not self.open and model not in {m.name for m in self.models}:
            raise UserError(f"unknown model '{model[:60]}'; choose one of {', '.join(m.name for m in self.models)}.")
        info = self.known(slug)
        length = {param.name: params.get(param.name, param.default) for param in info.params if param.name == LENGTH}
        asked = {**params, **length}
        self.check_params(info, asked)
        return Plan(slug, model, asked)

    def check_params(self, info: MethodInfo, params: Mapping[str, Any]) -> None:
        """Also of a recorded run that is to go on here. Raises UserError for a file of this machine where strangers come, and for too long an answer."""
        if not self.open:
            for one in engines.list_methods():
                if named := next((param.name for param in one.params if param.file and params.get(param.name)), None):
                    raise UserError(f"{named} names a file of the machine that serves this page, which is not read for visitors; leave it out.")
        for param in info.params:
            if param.name == LENGTH and LENGTH in params:
                param.check(params[LENGTH])


@dataclass(frozen=True)
class Slot:
    """The components of one slot."""

    box: gr.Accordion
    method: gr.Dropdown
    model: gr.Dropdown
    about: gr.Markdown
    pool: list[Any]

    @property
    def inputs(self) -> list[Any]:
        """In the order of `Catalogue.read_slot`."""
        return [self.method, self.model, *self.pool]


def build_slot(catalogue: Catalogue, number: int, plan: Plan, shown: bool) -> Slot:
    """The components of a slot, wired so that a change of method relabels the rest."""
    info = catalogue.methods[plan.method]
    with gr.Accordion(f"Slot {number + 1}", open=True, visible=shown, elem_classes=["slot"]) as box:
        method = gr.Dropdown(catalogue.method_choices(), value=plan.method, label="Method", elem_id=f"method-{number}")
        model = gr.Dropdown(catalogue.model_choices(info.kind), value=plan.model, label="Model", allow_custom_value=catalogue.open, elem_id=f"model-{number}")
        about = gr.Markdown(_about(info), elem_classes=["method-about"])
        with gr.Accordion("Parameters", open=False):
            pool = [
                _control(sort, param, plan.params, f"{number}-{i}") for i, (sort, param) in enumerate(zip(catalogue.pool, catalogue.placed(info), strict=True))
            ]
    slot = Slot(box, method, model, about, pool)

    def changed(slug: Any, chosen: Any) -> str:
        if not (isinstance(slug, str) and slug in catalogue.methods and isinstance(chosen, str)):
            return ""
        return bundles.pack(slot_updates(catalogue, catalogue.methods[slug], chosen))

    bundles.spread(method.input, changed, [method, model], [model, about, *pool])
    return slot


def slot_updates(catalogue: Catalogue, info: MethodInfo, model: str, params: dict[str, Any] | None = None) -> list[Any]:
    """Updates for [model, about, *pool] when a slot gets this method; the model stays if it fits."""
    choices = catalogue.model_choices(info.kind)
    fits = model in {name for _, name in choices} or (catalogue.open and model not in {m.name for m in catalogue.models})
    updates: list[Any] = [gr.update(choices=choices, value=model if fits else catalogue.first_model(info)), _about(info)]
    return updates + [gr.update(**_look(sort, param, params or {})) for sort, param in zip(catalogue.pool, catalogue.placed(info), strict=True)]


def _narrowed(info: MethodInfo, new_tokens: int, files: bool) -> MethodInfo:
    """The declaration as it is offered here: a shorter answer, and no parameter that names a file where strangers come."""
    params = [
        replace(p, high=min(p.high or new_tokens, new_tokens), default=min(p.default, new_tokens)) if p.name == LENGTH else p
        for p in info.params
        if files or not p.file
    ]
    return replace(info, params=tuple(params))


def _about(info: MethodInfo) -> str:
    return info.summary


def _control(sort: str, param: Param | None, params: dict[str, Any], name: str) -> Any:
    make = {"number": gr.Slider, "choice": gr.Dropdown, "switch": gr.Checkbox, "text": gr.Textbox}[sort]
    return make(**_look(sort, param, params), elem_id=f"control-{name}", interactive=True)


def _look(sort: str, param: Param | None, params: dict[str, Any]) -> dict[str, Any]:
    """Everything a control shows of a parameter."""
    if param is None:
        return {"visible": False}
    look = {"visible": True, "value": params.get(param.name, param.default), "label": _label(param), "info": param.sees}
    if sort == "number":
        if param.high is not None and isinstance(look["value"], (int, float)):
            look["value"] = min(look["value"], param.high)  # a recorded run may be longer than what may run here
        look |= {"minimum": param.low, "maximum": param.high, "step": param.step or (1 if param.kind == "int" else 0.01)}
    if sort == "choice":
        look |= {"choices": list(param.choices)}
    return look


def _label(param: Param) -> str:
    return f"{param.name} ({param.symbol})" if param.symbol else param.name
