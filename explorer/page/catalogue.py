"""What the page offers: methods, models, and a slot's form checked and turned into a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

import engines
from engines import MethodInfo, Param, Trace, UserError, tasks
from explorer.bench.chosen import ranked
from explorer.fitting import first, fits, has, needed, replaced, wants
from explorer.links import SLOTS
from explorer.page.run_limits import NEW_TOKENS, Limits

LENGTH = "max_new_tokens"  # the one parameter that every method has
_PLAIN: set[tuple[str, str]] = set()  # names and devices of models that were refused row-invariant forwards
BESIDE = " + "  # between a target's name and a published drafter's, as `engines.target_and_drafter` reads it
TOLD = (
    *("name", "kind", "default", "help", "symbol", "low", "high", "step", "choices", "neutral", "source", "presets"),
    *("fair", "longest"),
)


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one slot holds and runs: the slug of a method, the name of a model, values of declared parameters by name,
    and whether the model is to have row-invariant forwards where it can."""

    method: str
    model: str
    params: dict[str, Any] = {}
    row_invariant: bool = False

    def text(self) -> str:
        """As the component's value, which names row-invariant forwards only where they are wished."""
        value = msgspec.to_builtins(self)
        if not self.row_invariant:
            del value["row_invariant"]
        return json.dumps(value, ensure_ascii=False)

    def invariant(self, limits: Limits) -> bool:
        """Whether this run or its server wishes row-invariant forwards."""
        return self.row_invariant or limits.row_invariant

    def begin(self, prompt: str, seed: int, limits: Limits) -> engines.Run:
        """The run in this process, checked. Raises UserError."""
        invariant = self.invariant(limits)
        plain = limits.device == "cpu" and not invariant
        model = self.model if plain else load(self.model, invariant, limits.device)
        return engines.stream(
            self.method,
            model,
            prompt,
            params=self.params,
            seed=seed,
            max_steps=limits.steps,
            max_seconds=limits.seconds,
        )


def load(name: str, row_invariant: bool, device: str = "cpu") -> Any:
    """A model, row-invariant where that is wished and the model can be. Raises UserError."""
    if not row_invariant or (name, device) in _PLAIN:
        return engines.load_model(name, device=device)
    with suppress(UserError):  # the plain one says what else is wrong
        return engines.load_model(name, device=device, row_invariant=True)
    plain = engines.load_model(name, device=device)
    _PLAIN.add((name, device))
    return plain


@dataclass(frozen=True)
class Catalogue:
    """Methods and models that this page offers."""

    methods: dict[str, MethodInfo]
    models: tuple[Any, ...]
    open: bool  # whether a model that is not listed may be named (hub id or folder), and a file as a parameter

    @classmethod
    def read(cls, public: bool, allowed: Sequence[str] = (), new_tokens: int = NEW_TOKENS) -> Catalogue:
        """Ask `engines`; loads neither torch nor a model. allowed: names of models, all if empty. new_tokens: the
        longest answer.

        Raises UserError where a name of `allowed` is not listed."""
        models = tuple(engines.list_models())
        if unknown := sorted(set(allowed) - {model.name for model in models}):
            raise UserError(
                f"EXPLORER_MODELS names '{unknown[0]}', which is not listed; choose from "
                f"{', '.join(model.name for model in models)}."
            )
        methods = {info.slug: _narrowed(info, new_tokens, files=not public) for info in engines.list_methods()}
        return cls(
            methods, tuple(model for model in models if not allowed or model.name in allowed), not (public or allowed)
        )

    def offered(self) -> str:
        """The catalogue for the forms of the page, as JSON: what `assets/client/page/slot.js` says of it."""
        notes = {"download": " (fetched once)"}
        models = [
            {"name": m.name, "kind": m.kind, "label": m.name + notes.get(m.where, ""), "tasks": m.tasks}
            | ({"kinds": list(m.kinds)} if len(m.kinds) > 1 else {})
            | ({"has": sorted(has(m))} if has(m) else {})
            | ({"example": tasks.example_of(m.tasks[0])} if m.tasks else {})
            for m in self.models
        ]
        places = {slug: {"rank": place} for place, slug in enumerate(ranked())}
        methods = [_told(info) | places.get(info.slug, {}) for info in self.methods.values()]
        return json.dumps({"open": self.open, "models": models, "methods": methods}, ensure_ascii=False)

    def defaults(self, opening: Sequence[Trace]) -> list[Form]:
        """The slots as the page opens: the settings of the opening traces, then masked methods, controls (no baseline)
        first, then the rest."""
        plans = [plan for trace in opening if (plan := self.repeat(trace))]
        used = {plan.method for plan in plans}
        rest = sorted(self.methods.values(), key=lambda info: (info.kind != "masked", info.baseline is not None))
        plans += [Form(info.slug, self.first_model(info), {}) for info in rest if info.slug not in used]
        return [plans[i % len(plans)] for i in range(SLOTS)] if plans else []

    def repeat(self, trace: Trace, named: Mapping[str, str] = {}) -> Form | None:
        """What runs that trace again; None if its method or model is not known here. named: a model's own name -> what
        loads it."""
        header, known_as = trace.header, name_of(trace)
        model = named.get(known_as, known_as)
        known = {listed.name for listed in self.models} | ({*named.values()} if self.open else set())
        if header.method not in self.methods or model not in known:
            return None
        invariant = self.open and any(loaded.options.get("row_invariant") is True for loaded in header.models)
        return Form(header.method, model, header.params, invariant)

    def form(self, plan: Form) -> Form:
        """The form that shows a plan: a value for each declared parameter, none longer than what may run here."""
        info = self.methods[plan.method]
        params = {p.name: _within(p, plan.params.get(p.name, p.default)) for p in info.params}
        return replace(plan, params=params)

    def fitting(self, info: MethodInfo) -> list[str]:
        """The names of the models that the method can run on."""
        return [model.name for model in self.models if fits(info, model)]

    def first_model(self, info: MethodInfo) -> str:
        """The name of the model that a slot begins with, or nothing."""
        model = first([info], self.models)
        return model.name if model else ""

    def read_form(self, form: Form) -> Form:
        """A form as a plan. Raises UserError for whatever can be refused before a model is loaded."""
        info, model, given = self.known(form.method), form.model.strip(), form.params
        if not model:
            raise UserError(
                f"no model is chosen; '{info.slug}' needs a {needed(info)}: "
                f"{', '.join(self.fitting(info)) or 'none is installed here'}."
            )
        target, drafter = engines.target_and_drafter(model)
        if drafter and not info.drafters:
            able = ", ".join(method.title for method in self.methods.values() if method.drafters)
            raise UserError(
                f"{info.title} drafts with no published checkpoint; leave {drafter[:80]} out, or choose {able}."
            )
        listed = next((candidate for candidate in self.models if candidate.name == target), None)
        if listed is not None and not fits(info, listed, bool(drafter)):
            raise UserError(
                f"'{info.slug}' needs a {needed(info)}, which {model} is not or has not; choose one of "
                f"{', '.join(self.fitting(info))}."
            )
        plan, declared = self.plan(info.slug, model, given), {p.name: p for p in info.params}
        for name, value in given.items():
            if name not in declared:
                raise UserError(f"unknown parameter '{name[:60]}'; '{info.slug}' has {', '.join(declared)}.")
            declared[name].check(value)
        if form.row_invariant and not self.open:
            raise UserError("row-invariant forwards are not taken from visitors here; leave row_invariant out.")
        return replace(plan, row_invariant=form.row_invariant)

    def known(self, slug: object) -> MethodInfo:
        """The declaration of a method. Raises UserError for anything that is not a slug of one."""
        if not isinstance(slug, str) or slug not in self.methods:
            raise UserError(f"unknown method '{str(slug)[:60]}'; choose one of {', '.join(self.methods)}.")
        return self.methods[slug]

    def listed(self, name: object) -> Any:
        """A listed model. Raises UserError for what is not the name of one."""
        model = next((model for model in self.models if model.name == name), None)
        if model is None:
            raise UserError(
                f"unknown model '{str(name)[:60]}'; choose one of {', '.join(m.name for m in self.models)}."
            )
        return model

    def plan(self, slug: str, model: str, params: Mapping[str, Any]) -> Form:
        """What may run here: a listed model where strangers come, no file of this machine, and an answer of a bounded
        length. Raises UserError; all else is checked by `engines`."""
        if not self.open:
            self.listed(model)
        info = self.known(slug)
        length = {param.name: params.get(param.name, param.default) for param in info.params if param.name == LENGTH}
        given = {**params, **length}
        self.check_params(info, given)
        return Form(slug, model, given)

    def check_params(self, info: MethodInfo, params: Mapping[str, Any]) -> None:
        """Also of a recorded run that is to go on here. Raises UserError for a file of this machine or a text
        that its tools would read where strangers come, and for too long an answer."""
        if not self.open:
            for method in engines.list_methods():
                if named := next(
                    (param.name for param in method.params if param.file and params.get(param.name)), None
                ):
                    raise UserError(
                        f"{named} names a file of the machine that serves this page, which is not read for visitors; "
                        "leave it out."
                    )
                for param in method.params:
                    if param.kind == "code" and params.get(param.name, param.default) not in param.presets:
                        raise UserError(
                            f"{param.name} is a text of your own, which a tool of the machine that serves this page "
                            f"would read, so it is not taken from visitors; choose one of {', '.join(param.presets)}."
                        )
        for param in info.params:
            if param.name == LENGTH and LENGTH in params:
                param.check(params[LENGTH])


def updates(
    catalogue: Catalogue, opened: Mapping[int, Trace], shown: int, named: Mapping[str, str], asked: str = ""
) -> list[Any]:
    """Values for prompt, seed, number of slots and the form of each slot, None for what stays. A run that was added
    beside others changes its own slot only; one that cannot run here (a record of another tool, a model that is not
    known) changes none. shown: how many players are filled; named: see `Session`; asked: a prompt that the page has
    sent itself, which is not written over what was typed meanwhile."""
    plans = {slot: plan for slot, trace in opened.items() if (plan := catalogue.repeat(trace, named))}
    if not plans:
        return [None] * (3 + SLOTS)
    first = opened[min(plans)].header
    own = asked.strip() == first.prompt.strip()
    above = [None if own else first.prompt, first.seed] if 0 in opened else [None, None]
    forms = [catalogue.form(plans[slot]).text() if slot in plans else None for slot in range(SLOTS)]
    return [*above, str(min(SLOTS, max(1, shown))), *forms]


def _narrowed(info: MethodInfo, new_tokens: int, files: bool) -> MethodInfo:
    """The declaration as it is offered here: a shorter answer; where strangers come no parameter that names a file, and
    of a text that a tool reads only those that ship."""
    params = [
        replace(p, high=min(p.high or new_tokens, new_tokens), default=min(p.default, new_tokens))
        if p.name == LENGTH
        else replace(p, kind="choice", choices=tuple(p.presets), presets={})
        if p.kind == "code" and not files
        else p
        for p in info.params
        if files or not p.file
    ]
    return replace(info, params=tuple(params))


def _within(param: Param, value: Any) -> Any:
    """A recorded value as the form shows it: a recorded run may be longer than what may run here."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return min(value, param.high) if number and param.high is not None else value


def param_fields(param: Param) -> dict[str, Any]:
    """A parameter as `assets/client/page/fields.js` draws it."""
    return {
        name: getattr(param, name)
        for name in TOLD
        if getattr(param, name) not in (None, (), {}) and (name == "default" or getattr(param, name) != "")
    }


def name_of(trace: Trace) -> str:
    """What loads the picked model of a run, as far as its header tells: its name, with the published drafter's."""
    header = trace.header
    drafter = next((f"{BESIDE}{part.name}" for part in header.parts if "format" in part.options), "")
    return header.models[0].name + drafter if header.models else ""


def _told(info: MethodInfo) -> dict[str, Any]:
    params = [param_fields(p) for p in info.params]
    names = ("slug", "title", "family", "kind", "summary", "baseline", "lossless", "own")
    needs = info.needs[info.role]
    special: dict[str, Any] = {"needs": needs} if needs != info.kind else {}
    special |= {"wants": wants(info)} if wants(info) else {}
    special |= {"drafts": sorted(replaced(info))} if info.drafters else {}
    return {name: getattr(info, name) for name in names if getattr(info, name)} | special | {"params": params}
