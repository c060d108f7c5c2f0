"""The command `eval`: lm-evaluation-harness with a method as its model. What is ours stands here; all further arguments
go to the harness as they are."""

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import engines
from engines import UserError
from explorer.arguments import Parser
from explorer.cli.io import complain, print_table, remark, say
from explorer.cli.loading import loading, tell
from explorer.cli.options import Command, key_values, positive, with_length, with_part
from explorer.cli.run import INTERRUPTED, option_value
from explorer.words import printable

FAILING = 5  # runs that are kept of each task
OURS = {
    "model": "the method's model is given with --model NAME",
    "model_args": "parameters are given with --param NAME=VALUE, options of the model's loader with --option",
    "use_cache": "answers are kept anyway, with what they cost; --fresh answers anew",
}
AS_GIVEN = (
    *("model_args", "tasks", "num_fewshot", "limit", "samples", "write_out", "system_instruction", "gen_kwargs"),
    *("apply_chat_template", "predict_only", "confirm_run_unsafe_code", "metadata"),
)  # options that are handed on by their names
CACHES = ("cache_requests", "rewrite_requests_cache", "delete_requests_cache")
SEEDS = ("random_seed", "numpy_random_seed", "torch_random_seed", "fewshot_random_seed")
WRONG = (ValueError, TypeError, KeyError, ImportError, AssertionError)  # what its options and tasks may raise


def add_arguments(parser: Command) -> None:
    """Declare the options; those of the harness are its own."""
    parser.option("--method", "M", "the method's slug", required=True)
    parser.option("--model", "NAME", "a model's name, hub id, folder or GGUF file", required=True)
    parser.several("--param", "NAME=VALUE", "a parameter of the method; it stands before what the task asks for")
    parser.length("what the task asks for")
    parser.several("--option", "NAME=VALUE", "of the model's loader")
    parser.loading()
    parser.part()
    parser.flag("--fresh", "answer everything anew, also what was answered before")
    about = f"keep N failing items of each task as runs of the page (default {FAILING})"
    parser.option("--keep-failing", "N", about, type=int, default=FAILING)
    parser.option("--workers", "N", "processes, each with its own model (default 1)", type=positive, default=1)
    parser.option("--threads", "N", "threads of each worker (default: an equal share of the cores)", type=positive)
    parser.option("--ray", "ADDRESS", "run the workers on a Ray cluster; local starts one here")
    parser.method_files()
    parser.epilog = (
        "All further arguments are those of lm-evaluation-harness (`lm-eval run --help`): --tasks, --limit, "
        "--num_fewshot, --gen_kwargs, --apply_chat_template, --include_path, --output_path, --log_samples, --seed ..."
    )
    parser.set_defaults(command=eval_command, takes_rest=True)


def eval_command(args: argparse.Namespace) -> int:
    """Evaluate, print two tables, and keep what failed. What is answered stays when it is interrupted."""
    if args.keep_failing < 0:
        raise UserError(f"--keep-failing {args.keep_failing} is not allowed; give 0 or a whole number above it.")
    asked = _asked(args.rest)
    from explorer.evaluation import DecodingLM

    options: dict[str, Any] = {name: option_value(text) for name, text in key_values(args.option, "--option").items()}
    options |= loading(args)
    tell(args.model, options)
    model: Any = args.model
    if args.part:  # beside a loaded model, in this process
        info = engines.get_method(args.method).info
        model, options = with_part(engines.load_model(model, **options), args, [info]), {}
    lm = DecodingLM(
        args.method,
        model,
        with_length(key_values(args.param, "--param"), args, [engines.get_method(args.method).info]),
        seed=(asked.seed or [0, 0, 0])[2] or 0,
        options=options,
        resume=not args.fresh,
        workers=args.workers,
        threads=args.threads,
        ray=args.ray,
        batch_size=getattr(asked, "batch_size", None),
        max_batch_size=asked.max_batch_size,
    )
    asked.model, asked.model_args = "decoding-explorer", {"model": args.model, "method": args.method, **lm.params}
    try:
        return _evaluated(lm, asked, args)
    except KeyboardInterrupt:
        remark("what is answered is kept; the same command goes on from here.")
        return INTERRUPTED


def _asked(rest: list[str]) -> argparse.Namespace:
    """The harness's own arguments, read by its own parser. Raises UserError."""
    try:
        from lm_eval._cli.run import Run
        from lm_eval.utils import setup_logging
    except ImportError:
        raise UserError(
            'eval needs the package lm_eval, which is not installed; pip install "decoding-explorer[eval]".'
        ) from None
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")  # standard error is for complaints
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # it forks
    setup_logging()
    top = Parser(prog="decoding-explorer eval")
    Run(top.add_subparsers())
    with _refusals(*WRONG):
        asked = top.parse_args(["run", *rest])
    for name, instead in OURS.items():
        if getattr(asked, name, None):
            raise UserError(f"--{name} is not taken: {instead}.")
    if not asked.tasks and not asked.config:
        raise UserError("no task is given; give --tasks with names of `lm-eval ls tasks`, or a task's YAML file.")
    return asked


def _evaluated(lm: Any, asked: argparse.Namespace, args: argparse.Namespace) -> int:
    from lm_eval import simple_evaluate
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.loggers import EvaluationTracker

    with _refusals(*WRONG):
        config = EvaluatorConfig.from_cli(asked)
        if config.output_path:
            config.hf_hub_log_args["output_path"] = config.output_path
        tracker = EvaluationTracker(**config.hf_hub_log_args)
        tasks = config.process_tasks(config.metadata)
    with _refusals(ValueError, ImportError):  # tasks that need another package, or a flag
        results = simple_evaluate(
            model=lm,
            device=args.device,
            log_samples=True,
            evaluation_tracker=tracker,
            task_manager=tasks,
            fewshot_as_multiturn=bool(config.fewshot_as_multiturn),
            **{name: getattr(config, name) for name in AS_GIVEN},
            **{name: config.cache_requests.get(name, False) for name in CACHES},
            **dict(zip(SEEDS, config.seed, strict=True)),
        )
    failed, code = _failed(lm, results, args.keep_failing)
    results["config"]["decoding_explorer"]["failing"] = failed
    _told(results, config)
    _saved(results, config, tracker)
    return code


@contextlib.contextmanager
def _refusals(*kinds: type[Exception]) -> Iterator[None]:
    """What the harness refuses by errors of these kinds, as a sentence of ours."""
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if lines[0].startswith("Tasks not found"):
            lines = [f"{lines[0]}; `lm-eval ls tasks` lists them, --include_path FOLDER adds your own"]
        raise UserError(f"lm_eval refuses: {lines[0].rstrip('.')[:400]}.") from error


def _failed(lm: Any, results: dict[str, Any], most: int) -> tuple[list[dict[str, Any]], int]:
    """Failing items, kept and told; the exit status."""
    import msgspec

    from explorer.evaluation import keep_failing
    from explorer.runs.store import RunStore

    store = RunStore.from_env() if most else None
    if store is None:
        return [], 0
    code = 0
    try:
        failures = keep_failing(results, lm, most, store)
    except UserError as error:
        failures, code = [], complain(f"failing items are not kept: {error}")
    for failure in failures:
        again = "" if failure.same else "; this run gives another answer than the one that was marked"
        say(f"{failure.task} {failure.doc}: {failure.link} behind the address of the page, {failure.how}{again}")
    return [{**msgspec.to_builtins(failure), "link": failure.link} for failure in failures], code


def _told(results: dict[str, Any], config: Any) -> None:
    from lm_eval.utils import make_table

    from explorer.evaluation.items import LEGEND, table

    ours = results["config"]["decoding_explorer"]
    params = ", ".join(f"{name}={value}" for name, value in ours["params"].items())
    print(printable(f"{ours['method']}{f' ({params})' if params else ''} on {ours['models'][0]['name']}"))
    print(make_table(results))
    if results.get("groups"):
        print(make_table(results, "groups"))
    print_table(*table(ours["cost"]))
    print(LEGEND)


def _saved(results: dict[str, Any], config: Any, tracker: Any) -> None:
    """Results and samples as the harness writes them: for --output_path, the Hub and the loggers of its options."""
    from lm_eval.utils import handle_non_serializable

    samples = results.pop("samples")
    if config.show_config:
        print(json.dumps(results, indent=2, default=handle_non_serializable, ensure_ascii=False))
    for name, logger in _loggers(config):
        logger.post_init(results)
        logger.log_eval_result()
        if config.log_samples:
            logger.log_eval_samples(samples)
        say(f"{name}: logged")
    tracker.save_results_aggregated(results=results, samples=samples if config.log_samples else None)
    if config.log_samples:
        for task in results["configs"]:
            tracker.save_results_samples(task_name=task, samples=samples[task])
    if tracker.push_results_to_hub or tracker.push_samples_to_hub:
        tracker.recreate_metadata_card()


def _loggers(config: Any) -> Iterator[tuple[str, Any]]:
    from lm_eval.loggers import TrackioLogger, WandbLogger

    if config.wandb_args:
        yield "wandb", WandbLogger(config.wandb_args, config.wandb_config_args)
    if config.trackio_args:
        yield "trackio", TrackioLogger(config.trackio_args)
