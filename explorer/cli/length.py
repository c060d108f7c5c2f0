"""`bench --length`: what a token costs as an answer grows, beside transformers' own loop."""

import argparse
from typing import Any

import engines
from engines import UserError
from explorer.cli.io import print_lines, remark, signed, write_json
from explorer.cli.options import LENGTH
from explorer.cli.progress import Pace
from explorer.cli.run import INTERRUPTED
from explorer.figures.calls import many


def growing(args: argparse.Namespace, model: Any, tokens: int) -> int:
    """Measure and print a line for each stretch of each loop, in answers of so many tokens. Raises UserError for
    methods that are not named, and for those that draft with a model of their own."""
    from explorer.bench import length, measure

    if not args.method:
        raise UserError("--length runs each method to its full length twice; name them by --method, such as greedy.")
    if args.param:
        raise UserError("--length measures methods at their defaults; leave --param out.")
    slugs = list(dict.fromkeys(args.method))
    if more := [slug for slug in slugs if len(engines.get_method(slug).info.needs) > 1]:
        raise UserError(f"--length takes methods of one model, and '{more[0]}' needs several; leave it out.")
    asked = [(slug, {LENGTH: tokens}) for slug in slugs]
    prompt = measure.prompts_for(model.record.name, 1)[0]
    measure.refuse_bad(asked, model, prompt)
    lengths = length.measured(slugs, model, prompt, tokens, Pace("tokens"))
    if lengths.partial:
        remark("stopped; the stretches that all loops had finished are kept.")
    if args.json:
        write_json(args.json, signed(lengths, args))
    if args.json != "-":
        threads = many(model.record.threads, "thread")
        print(
            f"{model.record.name}, {model.record.dtype}, {threads}; {lengths.prompt_tokens} tokens of prompt, "
            "medians of "
            f"turns of {lengths.chunk} tokens"
        )
        print_lines(length.rows(lengths))
        print(length.LEGEND)
    return INTERRUPTED if lengths.partial else 0
