"""Tables made of the cards beside weights in `assets/models` and `assets/parts`."""

import re
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import msgspec

from engines import ASSETS
from explorer.papers.tables import Cell, Link, Measured

COST = "_layer_rows_per_token"
ENDS = "_95"  # of the 95 % interval of a number
DRAFTS = {
    "text": "EAGLE's inputs, text only",
    "fused": "EAGLE's inputs, text and pictures in turn",
    "mixed": "MSD's inputs, text and pictures in turn",
    "growing": "MSD: its inputs, text first, then ever more pictures",
    "compressed": "ViSpec's inputs, text and pictures in turn",
}
PARTS = ("in_one_pass", "letter_by_letter", "all_counts_right", "all_places_right")


def cards(folder: str) -> dict[str, dict[str, Any]]:
    """Name -> card of the weights in a folder of `assets`."""
    paths = sorted((ASSETS / folder).glob("*/card.json"))
    return {path.parent.name: msgspec.json.decode(path.read_bytes()) for path in paths}


def per_call(card: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """What a card says of tokens per call of the target, and of how many prompts; "" where it does not say it."""
    calls = dict(card.get("held_out", {}).get("tokens_per_target_call", {}))
    prompts = re.search(r"\d+", str(calls.pop("asked", "")))
    return calls, prompts[0] if prompts else ""


def calls() -> Iterator[Measured]:
    """Tokens per model call of the trained drafters, a row for each setting that its card measured."""
    rows: list[list[Cell]] = []
    for name, card in cards("parts").items():
        calls, prompts = per_call(card)
        cost = {key.removesuffix(COST): value for key, value in calls.items() if key.endswith(COST)}
        ends = {key.removesuffix(ENDS): value for key, value in calls.items() if key.endswith(ENDS)}
        phrases = [
            f"{key.replace('_', ' ')} {value:.2f}"
            + ("" if key not in ends else " ({:.2f} to {:.2f})".format(*ends[key]))
            + (f" at {cost[key]:.0f} layer-rows" if key in cost else "")
            for key, value in calls.items()
            if not key.endswith((COST, ENDS))
        ]
        if phrases:
            made = [card["machine"].partition(", cpu")[0], card["date"], f"`{card['command']}`"]
            rows.append([f"`{name}`", "; ".join(phrases), prompts or "–", *made])
    yield Measured(
        title="Tokens per model call, by the cards",
        command="",
        machine="Float32; machine, date and command in each row",
        date="",
        columns=["part", "tokens per model call", "prompts", "machine", "date", "command"],
        rows=rows,
        sample="held-out prompts of the text cache, temperature 0, the call that reads the prompt counted",
        notes=[
            "Other methods in a row are controls on the same prompts. Intervals are about ±0.2 with 40 prompts and "
            "wider with twelve, which rank nothing.",
            "Layer-rows are per token and leave out heads and EAGLE's layer. This is one model and its tasks.",
        ],
    )


def domains() -> Iterator[Measured]:
    """Read-ME's experts: what each domain loses by the share of channels that its expert keeps."""
    for card in cards("parts").values():
        if card.get("kind") != "domain experts":
            continue
        held = card["held_out"]
        shares = list(next(iter(held["nats_per_token"].values()))["own"])
        rows: list[list[Cell]] = []
        for domain, losses in held["nats_per_token"].items():
            foreign = [value for key, both in losses.items() if key.startswith("foreign") for value in both.values()]
            span = f"{min(foreign):.2f} to {max(foreign):.2f}" if foreign else "–"
            rows.append([domain, *(round(x, 2) for x in (losses["dense"], *(losses["own"][s] for s in shares))), span])
        router = held["router"]
        columns = ["domain", "all channels", *(f"own expert, {float(s):.0%}" for s in shares), "another's, 50 %"]
        note = (
            f"The router agrees with the labels on {router['agreement']:.1%} of the tokens; the most common expert "
            f"alone would on {router['most_common_alone']:.1%}. So few texts do not rank close shares."
        )
        yield Measured(
            title=f"Read-ME: nats per token of {card['name']}",
            command=card["command"],
            machine=card["machine"],
            date=card["date"],
            columns=columns,
            rows=rows,
            sample=f"{held['texts']} held-out texts; untuned",
            notes=[note],
        )


def vision() -> Iterator[Measured]:
    """Drafts for a vision-language model: how much of a caption each gets accepted."""
    rows: list[list[Cell]] = []
    for card in (card for card in cards("parts").values() if "captions" in card.get("held_out", {})):
        for draft, scores in card["held_out"]["captions"].items():
            chain_of_4, tree = scores["chain_of_4"], scores["tree_of_15"]
            first = card["held_out"]["as_stored"][draft]["same_first_token"]
            words = chain_of_4["from_the_draft"]
            rows.append(
                [
                    DRAFTS.get(draft, draft), round(chain_of_4["accepted_per_check"], 2),
                    round(chain_of_4["tokens_per_forward"], 2), round(tree["accepted_per_check"], 2),
                    round(tree["tokens_per_forward"], 2), *(round(100 * words[k]) for k in words),
                    round(100 * first, 1), card["date"], f"`{card['command']}`",
                ]
            )  # fmt: skip
    columns = ["draft", "accepted, chain of 4", "tokens per forward", "accepted, tree of 15", "tokens per forward"]
    columns += ["attributes, %", "function words, %", "places, %", "first choice, %", "date", "command"]
    yield Measured(
        "Drafts for a vision-language model (MSD, ViSpec)",
        "",
        "AMD EPYC (x86_64), one thread; date and command in each row",
        "",
        columns,
        rows,
        "captions of 40 held-out scenes of three objects by `tiny-vlm`, temperature 0, every caption greedy's",
        [
            "The columns in % are words in rounds with a draft that came from the draft, and how often its first "
            "choice is the target's. One seed, 300 steps each.",
            "Published gains (2.29 times for MSD, 1.31 to 2.98 accepted for ViSpec) belong to models of billions of "
            "weights whose pictures are sixteen times as long.",
        ],
    )


def reader() -> Iterator[Measured]:
    """The reader of word images: whole words read right by both decoders."""
    card = cards("models").get("tiny-reader")
    if card is None:
        return
    rows: list[list[Cell]] = [
        [title, *(round(100 * card[key][part], 1) for part in PARTS)]
        for title, key in (("words", "held_out_words"), ("letters by chance", "letters_by_chance"))
    ]
    yield Measured(
        title="A word in one pass and letter by letter (CPPD)",
        command=card["command"],
        machine=card["machine"],
        date=card["date"],
        columns=["text", *(f"{part.replace('_', ' ')}, %" for part in PARTS)],
        rows=rows,
        sample=f"{card['held_out_words']['number']} held-out words of `tiny-reader`, all distortions by chance",
    )


# --- trainings


TRAINED = ["name", "weights", "steps", "tokens", "minutes", "on held-out data", "machine", "date", "made again by"]


def trainings(folder: str) -> list[list[str | Link]]:
    """A row for each card of a folder of `assets`: what it took, where and when, its command, and what it reached."""
    rows: list[list[str | Link]] = []
    for name, card in cards(folder).items():
        took = [_count(card.get(key)) for key in ("parameters", "steps", "tokens")]
        machine = str(card.get("machine", "–")).replace("(R)", "").partition(", torch")[0].replace(", cpu", "")
        minutes = "–" if card.get("minutes") is None else f"{card['minutes']:g}"
        end = [machine.replace(" 1 threads", " 1 thread"), card["date"], card["command"]]
        rows.append([name, *took, minutes, reached(card), *end])
    return rows


def _count(value: Any) -> str:
    number = value.get("train") if isinstance(value, dict) else value  # of tokens by split
    return f"{number:,}" if number else "–"


def reached(card: dict[str, Any]) -> str:
    """The first thing that a card says of held-out data, in a few words; a dash where it says nothing."""
    for path, text in REACHED:
        node: Any = card
        for key in path.split("."):
            node = node.get(key) if isinstance(node, dict) else None
        if node is not None:
            return text(node)
    return "–"


def _first(rank: list[Any]) -> str:
    """Of the first guess; of several widths, exits or windows the least and the most."""
    values = [share[0] for share in rank] if isinstance(rank[0], list) else rank[:1]
    return f"first guess right {_span(values)}"


def _span(values: Any) -> str:
    low, high = min(values), max(values)
    return f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"


REACHED: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("held_out_exact_match", lambda of: f"exact match {fmean(of.values()):.1%}, mean of {len(of)} tasks"),
    ("held_out.loss", lambda of: f"loss {of:.3f} nats"),
    ("held_out.exact_match", lambda of: f"exact match {of:.1%}"),
    ("held_out_right", lambda of: f"right {of['greedy']:.0%} greedily, {of['drawn_at_temperature_1']:.0%} drawn"),
    ("held_out_words", lambda of: f"words {of['in_one_pass']:.1%} in one pass, {of['letter_by_letter']:.1%} by letter"),
    ("held_out_scenes", lambda of: f"mask overlap {of['mask_overlap']:.3f}, captions {of['captions_right']:.1%}"),
    ("read_as_wanted", lambda of: f"read as wanted {of['drawn']:.1%} (real digits {of['real']:.1%})"),
    ("drawn", lambda of: f"both colours {of['both_colours']:.1%}, in place {of['in_place']:.1%}"),
    ("held_out.describe.objects_right", lambda of: f"objects named right in captions {of:.1%}"),
    ("decoding.all.tokens_per_forward", lambda of: f"{of:.2f} tokens per model call"),
    ("held_out_by_accept_line", lambda of: f"precision {of['0.96']['precision']:.1%} at a threshold of 0.96"),
    ("held_out.auc", lambda of: f"AUC {of:.3f}"),
    ("held_out.rank_1", _first),
    ("held_out.first_choice_in_top_8.mapped", lambda of: f"first choice among 8 guesses {_span(of.values())}"),
    ("held_out.same_first_token", lambda of: f"same first choice {_span(of.values())}"),
    ("held_out.same_first_token_ridge_alone", lambda of: f"same first choice {_span(of.values())}"),
    ("held_out.router.agreement", lambda of: f"router agrees on {of:.1%}"),
    ("held_out.as_stored", lambda of: f"same first choice {_span([x['same_first_token'] for x in of.values()])}"),
    ("held_out.favourites", lambda of: f"calls foretold by token id {_span(of)}"),
)
