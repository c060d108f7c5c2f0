"""Tables made of the cards beside weights in `assets/models` and `assets/parts`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from explorer import ASSETS
from explorer.papers.tables import Cell, Measured

COST = "_layer_rows_per_token"
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


def calls() -> Iterator[Measured]:
    """Tokens per target call of the trained drafters, a row for each setting that its card measured."""
    rows: list[list[Cell]] = []
    for name, card in cards("parts").items():
        calls = dict(card.get("held_out", {}).get("tokens_per_target_call", {}))
        asked = calls.pop("asked", "")
        at = re.search(r"\d+", asked)
        cost = {key.removesuffix(COST): value for key, value in calls.items() if key.endswith(COST)}
        told = [
            f"{key.replace('_', ' ')} {value:.2f}" + (f" at {cost[key]:.0f} layer-rows" if key in cost else "")
            for key, value in calls.items()
            if not key.endswith(COST)
        ]
        if told:
            made = [card["machine"].partition(", cpu")[0], card["date"], f"`{card['command']}`"]
            rows.append([f"`{name}`", "; ".join(told), at[0] if at else "–", *made])
    yield Measured(
        "Tokens per target call, by the cards",
        "",
        "Float32; machine, date and command in each row",
        "",
        ["part", "tokens per target call", "prompts", "machine", "date", "command"],
        rows,
        "held-out prompts of the text cache, temperature 0, the call that reads the prompt counted",
        [
            "Other methods in a row are controls on the same prompts. Intervals are about ±0.2 with 40 prompts and "
            "wider with twelve, which order nothing.",
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
        for domain, found in held["nats_per_token"].items():
            foreign = [value for key, both in found.items() if key.startswith("foreign") for value in both.values()]
            span = f"{min(foreign):.2f} to {max(foreign):.2f}" if foreign else "–"
            rows.append([domain, *(round(x, 2) for x in (found["dense"], *(found["own"][s] for s in shares))), span])
        router = held["router"]
        yield Measured(
            f"Read-ME: nats per token of {card['name']}",
            card["command"],
            card["machine"],
            card["date"],
            ["domain", "all channels", *(f"own expert, {float(s):.0%}" for s in shares), "another's, 50 %"],
            rows,
            f"{held['texts']} held-out texts; untuned",
            [
                f"The router agrees with the labels on {router['agreement']:.1%} of the tokens; the most common expert "
                f"alone would on {router['most_common_alone']:.1%}. Close shares are not ordered by so few texts.",
            ],
        )


def vision() -> Iterator[Measured]:
    """Drafts for a vision-language model: how much of a caption each gets accepted."""
    rows: list[list[Cell]] = []
    for card in (card for card in cards("parts").values() if "captions" in card.get("held_out", {})):
        for draft, found in card["held_out"]["captions"].items():
            chain_of_4, tree = found["chain_of_4"], found["tree_of_15"]
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
        "A word in one pass and letter by letter (CPPD)",
        card["command"],
        card["machine"],
        card["date"],
        ["text", *(f"{part.replace('_', ' ')}, %" for part in PARTS)],
        rows,
        f"{card['held_out_words']['number']} held-out words of `tiny-reader`, all distortions by chance",
    )
