"""A method and its model as a model of lm-evaluation-harness, and what a task asks of generation (`until`,
`max_gen_toks`, `temperature`, ...) as parameters of the method; what it cannot do is refused. Importing this file
registers the model there as `decoding-explorer`."""

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import lm_eval.api.model
import lm_eval.api.registry
import msgspec
from lm_eval import utils
from tqdm import tqdm

import engines
from engines import MethodInfo, Param, UserError
from explorer.bench.cells import Files, weights_of
from explorer.bench.quality import fitted
from explorer.bench.workers import crew
from explorer.evaluation.items import Answer, Item, Scored, key, main_model, means

NAME = "decoding-explorer"
Request = Any  # lm_eval.api.instance.Instance


@lm_eval.api.registry.register_model(NAME)
class DecodingLM(lm_eval.api.model.TemplateLM):  # type: ignore[misc]
    """One method with its parameters on one model.

    method: a slug. model: a name, hub id or folder, a loaded model, or a dict role -> model. params: those that are not
    left to the task (`max_gen_toks`, `temperature`) or the method's defaults. seed: of every answer; the n-th repeat of
    a request takes seed + n. device, dtype, options: of the model's loader. resume: take answers that were given
    before, by the same code and weights to the same request; new ones are kept in any case. workers, threads, ray: as
    `decoding-explorer sweep` has them; they need the model by its name. batch_size, max_batch_size: without effect,
    since a run decodes one answer.

    `get_model_info`, which the harness writes into `results["config"]`, holds what the answers cost. Raises UserError
    for bad input."""

    def __init__(
        self,
        method: str,
        model: Any,
        params: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        device: str | None = None,
        dtype: str | None = None,
        options: Mapping[str, Any] | None = None,
        resume: bool = True,
        workers: int = 1,
        threads: int | None = None,
        ray: str | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        self.info = engines.get_method(method).info
        self.params = checked(self.info, params or {})
        self.seed, self._resume = seed, resume
        given = {"device": device, "dtype": dtype, **(options or {})}
        loading = {name: value for name, value in given.items() if value is not None}
        named = isinstance(model, (str, os.PathLike))
        if not named and (workers > 1 or ray or loading):
            raise UserError("workers, ray, device, dtype and options need the model by its name, not loaded.")
        self.model = engines.load_model(model, **loading) if named else model
        self.main = main_model(method, self.model)
        self._decode = crew(partial(_here, self.model), str(model), loading, workers, threads, ray)
        self._kept, self._weights = Files(Answer), weights_of(method, self.model)
        self._answered: dict[str, list[Answer]] = defaultdict(list)  # by task
        self._reused: Counter[str] = Counter()
        self._scoring: list[str] = []  # the task of each request that is being scored
        self.tokenizer = getattr(self.main.tokenizer, "tokenizer", None)

    # --- what the harness asks

    def generate_until(self, requests: list[Request], disable_tqdm: bool = False) -> list[str]:
        """See `lm_eval.api.model.LM`."""
        seen: Counter[str] = Counter()
        items = []
        for request in requests:
            item = self.item(*request.args)
            again = key(item, []) or ""
            items.append(msgspec.structs.replace(item, seed=item.seed + seen[again]))
            seen[again] += 1
        answers = self._answers(items, [request.task_name or "" for request in requests], disable_tqdm)
        return [answer.text for answer in answers]

    def item(self, context: str, gen_kwargs: Mapping[str, Any]) -> Item:
        """A request as a run, of the end of a context that is too long, as in the harness's own models. Raises
        UserError where the method cannot do what the task asks for."""
        params, until = asked_of(self.info, self.params, gen_kwargs)
        prompt = self.tok_encode(context)
        models = engines.assign_roles(self.info, self.model).values()
        left_out = max(0, len(prompt) - max(1, engines.prompt_room(models, params[LENGTH])))
        return Item(self.info.slug, params, prompt[left_out:], until, self.seed, left_out)

    def loglikelihood(self, requests: list[Request], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """See `lm_eval.api.model.LM`: what the model itself gives, whatever the method; of causal models alone."""
        self._must_score(requests)
        self._scoring = [request.task_name or "" for request in requests]
        scores: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
        return scores

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **options: Any
    ) -> list[tuple[float, bool]]:
        items = []
        for _, context, text in requests:
            left_out = max(0, len(context) + len(text) - self.main.max_positions - 1)  # the last token is not fed
            ids = [*context, *text][left_out:]
            items.append(Scored(self.info.slug, ids, len(context) - left_out, left_out))
        return [(answer.score or 0.0, answer.greedy) for answer in self._answers(items, self._scoring)]

    def loglikelihood_rolling(self, requests: list[Request], disable_tqdm: bool = False) -> list[float]:
        """See `lm_eval.api.model.LM`; windows as the harness lays them."""
        self._must_score(requests)
        items, owners = list[Scored](), list[int]()
        for i, request in enumerate(requests):
            windows = utils.get_rolling_token_windows(
                self.tok_encode(request.args[0]), self.prefix_token_id, self.main.max_positions, context_len=1
            )
            for context, text in map(utils.make_disjoint_window, windows):
                items.append(Scored(self.info.slug, [*context, *text], len(context)))
                owners.append(i)
        answers = self._answers(items, [requests[i].task_name or "" for i in owners], disable_tqdm)
        sums: dict[int, float] = defaultdict(float)
        for i, answer in zip(owners, answers, strict=True):
            sums[i] += answer.score or 0.0
        return [sums[i] for i in range(len(requests))]

    def _must_score(self, requests: Sequence[Request]) -> None:
        if self.main.record.kind == "causal":
            return
        tasks = ", ".join(dict.fromkeys(request.task_name or "" for request in requests))
        raise UserError(
            f"{tasks} asks for log-likelihoods, which are defined here for causal models alone, and "
            f"{self.main.record.name} is {self.main.record.kind}; choose tasks whose output_type is generate_until, or "
            "a causal model."
        )

    # --- texts and tokens

    @property
    def eot_token_id(self) -> int:
        """What ends a text."""
        return int(min(self.main.eos_ids, default=0))

    @property
    def prefix_token_id(self) -> int:
        """What an empty context is read as: the mark that begins a text, or else that of its end."""
        begin = getattr(self.tokenizer, "bos_token_id", None)
        return self.eot_token_id if begin is None else int(begin)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **options: Any) -> list[int]:
        """Ids of a text as it stands, special tokens that are written in it included, with the marks that the tokenizer
        puts around a text unless it has that of its beginning already."""
        if self.tokenizer is None:
            return list(self.main.tokenizer.encode(string))
        begin = getattr(self.tokenizer, "bos_token", None)
        marks = add_special_tokens if add_special_tokens is not None else not (begin and string.startswith(begin))
        return list(self.tokenizer(string, add_special_tokens=marks)["input_ids"])

    @property
    def tokenizer_name(self) -> str:
        """For the harness's own cache of requests."""
        return str(self.main.record.name).replace("/", "__")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns in the model's own chat format. Raises UserError where it has none."""
        if self.tokenizer is None or not self.tokenizer.chat_template:
            raise UserError(f"{self.main.record.name} has no chat template; leave out --apply_chat_template.")
        form = partial(self.tokenizer.apply_chat_template, tokenize=False)
        return str(
            form(
                chat_history,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    # --- answers

    def _answers(self, items: Sequence[Item | Scored], tasks: Sequence[str], quiet: bool = False) -> list[Answer]:
        """In the order of the items: what was kept, and then what is new, each kept as soon as it is there."""
        names = [key(item, self._weights) for item in items]
        by_index = {i: kept for i, name in enumerate(names) if self._resume and name and (kept := self._kept.get(name))}
        before, new = set(by_index), [i for i in range(len(items)) if i not in by_index]
        bar = tqdm(total=len(items), initial=len(before), unit="answer", disable=True if quiet else None)
        with bar, closing(self._decode([items[i] for i in new])) as answers:
            for i, answer in zip(new, answers if new else (), strict=True):
                by_index[i] = answer
                if name := names[i]:
                    self._kept.put(name, answer)
                bar.update()
        for i, task in enumerate(tasks):
            self._answered[task].append(by_index[i])
            self._reused[task] += i in before
        return [by_index[i] for i in range(len(items))]

    def get_model_info(self) -> dict[str, Any]:
        """For `results["config"]`: what ran, and what it cost by task since this was last asked."""
        costs = {task: means(answers, self._reused[task]) for task, answers in self._answered.items()}
        self._answered.clear()
        self._reused.clear()
        models = [loaded_model.record for loaded_model in engines.assign_roles(self.info, self.model).values()]
        if (drafter := getattr(self.main, "drafter", None)) is not None:
            models.append(drafter.record("head", self.main.record))
        return {
            "decoding_explorer": {
                "method": self.info.slug,
                "params": self.params,
                "seed": self.seed,
                "models": [msgspec.to_builtins(record) for record in models],
                "code": engines.code_version(),
                "cost": costs,
            }
        }


def _here(model: Any, items: Sequence[Item | Scored]) -> Generator[Answer, None, None]:
    for item in items:
        yield item.work(model)


LENGTH, TEMPERATURE = "max_new_tokens", "temperature"
USUAL_LENGTH = 256  # where a task says none: that of the harness's own models
OF_SAMPLING = {"top_p", "top_k", "min_p", "typical_p"}  # without effect where nothing is drawn
NEUTRAL = {"top_p": 1, "top_k": 0, "min_p": 0, "typical_p": 1, "num_beams": 1, "repetition_penalty": 1}


def checked(info: MethodInfo, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that a person set, each checked by itself. Raises UserError."""
    declared = {p.name: p for p in info.params}
    for name in given:
        if name not in declared:
            raise UserError(f"'{info.slug}' has no parameter '{name[:60]}'; it has {', '.join(sorted(declared))}.")
    return {name: declared[name].check(value) for name, value in given.items()}


def asked_of(
    info: MethodInfo, own: Mapping[str, Any], gen_kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a run, and the strings that end its answer. own: those that a person set, which stand before
    the task's. Raises UserError for what the method cannot do."""
    from lm_eval.models.utils import normalize_gen_kwargs

    declared = {p.name: p for p in info.params}
    given = {name: value for name, value in gen_kwargs.items() if value is not None}
    wish = dict(normalize_gen_kwargs(given, default_max_gen_toks=USUAL_LENGTH))
    params = fitted(info, _length(declared[LENGTH], wish.pop("max_gen_toks"), own))
    until = [end for end in wish.pop("until") if isinstance(end, str) and end]
    sampling = {"do_sample", TEMPERATURE} & {*given}
    warm = float(wish.pop(TEMPERATURE, 1.0))
    heat = warm if wish.pop("do_sample") else 0.0
    if sampling and TEMPERATURE not in own:
        params |= _temperature(info, declared.get(TEMPERATURE), heat)
    if not heat:
        wish = {name: value for name, value in wish.items() if name not in OF_SAMPLING}
    for name, value in wish.items():
        if name in declared:
            params[name] = declared[name].check(value)
        elif value != NEUTRAL.get(name) and name not in own:
            raise UserError(
                f"the task asks for {name}={str(value)[:40]}, and '{info.slug}' has no such parameter; it has "
                f"{', '.join(sorted(declared))}. Take it out with --gen_kwargs {name}=None."
            )
    return params | dict(own), until


def _length(declared: Param, asked: int, own: Mapping[str, Any]) -> int:
    """A person's length, else the task's. Raises UserError where the method writes no such answers."""
    try:
        length: int = declared.check(own.get(LENGTH, asked))
    except UserError:
        raise UserError(
            f"the task asks for max_gen_toks={asked}; {declared.allowed()}, with --param {LENGTH}=N."
        ) from None
    return length


def _temperature(info: MethodInfo, declared: Param | None, heat: float) -> dict[str, Any]:
    """The task's temperature. Raises UserError where the method cannot decode at it."""
    asks = f"the task asks for {'sampling at' if heat else 'greedy decoding,'} temperature {heat:g}"
    if declared is None:
        if heat:
            raise UserError(
                f"{asks}, and '{info.slug}' has no temperature; choose a method that has one, or "
                "--gen_kwargs do_sample=False."
            )
        return {}
    try:
        return {TEMPERATURE: declared.check(heat)}
    except UserError:
        raise UserError(
            f"{asks}, and '{info.slug}' cannot do that: {declared.allowed()}. Say what is meant with --param "
            f"{TEMPERATURE}=..."
        ) from None
