"""What the readers of word images share: how the picture is drawn from the prompt, and what of it is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from engines.core.trace import Count, Packed, Probability, Record, pack
from engines.kit import Choice, Float, Params, Recorder, UserError, WordReaderLM, torch
from engines.tasks.blocks import WORDS
from engines.tasks.word_images import FONTS, HEIGHT, LONGEST, WIDTH, Look, drawn

LOOKS = (
    Choice("font", "sans", tuple(FONTS)),
    Float("rotation", 0.0, -30.0, 30.0, step=1.0),
    Float("blur", 0.0, 0.0, 4.0, step=0.1),
    Float("noise", 0.0, 0.0, 0.6, step=0.02),
    Float("contrast", 1.0, 0.05, 1.0, step=0.05),
)


class Sight(Record):
    """A picture of a word, and what its reader makes of it.

    pixels [rows, columns], greys from 0 to 1; none where they are those of an earlier step. attention [n, columns of
    features]: for each token that the step wrote, in their order, where along the picture it was looked up. counts: how
    often each sign stands there as the reader counts, those that do not left out. filled: for each place the
    probability that a sign or the end mark stands there."""

    pixels: Packed | None = None
    attention: Packed | None = None
    counts: dict[str, Count] = {}
    filled: list[Probability] = []


def own(model: WordReaderLM, prompt: Sequence[int]) -> bool:
    """Whether a prompt is a picture of a person's own."""
    return any(token in model.picture_ids for token in prompt)


def spelled(model: WordReaderLM, prompt: Sequence[int]) -> str:
    """The word of the prompt's tokens. Raises UserError for what is no word."""
    if own(model, prompt):
        raise UserError("this method draws a typed word; a picture of your own is for the readers of one word.")
    if not len(prompt) <= LONGEST or any(token in model.eos_ids for token in prompt):
        raise UserError(
            f"{len(prompt)} tokens were given as a word; give the ids of 1 to {LONGEST} letters, without the end mark."
        )
    return model.tokenizer.decode(prompt)


def picture(model: WordReaderLM, prompt: Sequence[int], p: Params, run: Recorder) -> torch.Tensor:
    """The picture, uint8 [32, 128], of the word that the prompt's tokens spell, or the one that they are. Raises
    UserError for what is neither, and for a look of a picture that is not drawn here."""
    if own(model, prompt):
        if len(prompt) != WORDS.count or not all(token in model.picture_ids for token in prompt):
            raise UserError(f"a picture has {WORDS.count} blocks and no letter with them; choose its file again.")
        if changed := next((look.name for look in LOOKS if getattr(p, look.name) != look.default), None):
            raise UserError(
                f"{changed}={getattr(p, changed)} is of a word that is drawn here, and the picture is your own; set it "
                "to its default."
            )
        return torch.from_numpy(WORDS.pixels(prompt))
    word = spelled(model, prompt)
    noise = torch.randn(HEIGHT, WIDTH, generator=run.rng).numpy() if p.noise > 0 else None
    look = Look(p.font, rotation=p.rotation, blur=p.blur, noise=p.noise, contrast=p.contrast)
    return torch.from_numpy(drawn(word, look, noise))


def sight(
    pixels: torch.Tensor | None,
    attention: torch.Tensor,
    counts: dict[str, int] | None = None,
    filled: Sequence[float] = (),
) -> Sight:
    """What a step says of its picture. attention [h, n, V] is averaged over its heads."""
    return Sight(
        None if pixels is None else pack(pixels.numpy() / 255, 0.0, 1.0),
        pack(attention.mean(0).numpy(), 0.0, 1.0),
        counts or {},
        [round(value, 4) for value in filled],
    )


def until_end(tokens: Sequence[int], eos_ids: frozenset[int]) -> list[int]:
    """The tokens up to the first end mark and with it."""
    return list(tokens)[: next((i + 1 for i, token in enumerate(tokens) if token in eos_ids), len(tokens))]
