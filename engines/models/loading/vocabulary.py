"""What the tokens of a checkpoint are: its tokenizer behind `Tokenizer`, the ids that end an answer, and the mask."""

from typing import Any

from engines.core.errors import UserError
from engines.core.kinds import Tokenizer
from engines.models.configs.plans import Plan
from engines.models.tokenizers.tokens import HFTokenizer, IdTokenizer, candidates, check_end_ids

TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|role_end|>")
SEPARATOR, FINAL = "<|end|>", ("<|return|>", "<|call|>")  # of messages where one of the latter ends an answer: gpt-oss
ENDINGS = ("eos", "eot", "end", "</s>", "eom")  # by which a token that may end an answer is found


def eos_ids(network: Any, tokenizer: Any | None, given: int | None = None) -> frozenset[int]:
    """The ids that end an answer: the one that was given, or those of config, generation settings and tokenizer, and
    marks that end a turn, which settings were seen to forget. Where a checkpoint has other marks for that, <|end|> only
    ends a message, and its settings leave it out on purpose (ggml-org/llama.cpp has the same exception)."""
    if given is not None:
        return frozenset({given})
    ends: set[int] = set()
    for source in (
        network.config.get_text_config(),
        network.config,
        network.generation_config if network.can_generate() else None,
        tokenizer,
    ):
        ids = getattr(source, "eos_token_id", None)
        ends |= {ids} if isinstance(ids, int) else set(ids or ())
    vocabulary = tokenizer.get_added_vocab() if tokenizer is not None else {}
    separates = any(mark in vocabulary for mark in FINAL)
    marks = [mark for mark in TURN_ENDS if not (separates and mark == SEPARATOR)]
    return frozenset(ends | {vocabulary[mark] for mark in marks if mark in vocabulary})


def check_ends(name: str, how: Plan, tokenizer: Any | None, ends: frozenset[int], size: int) -> None:
    """Raise UserError where an answer would never end, or ends with an id that is no token."""
    check_end_ids(name, ends, size)
    if how.ends and not ends:
        raise UserError(
            f"'{name}' does not say which token ends an answer; give it as eos_id=... (candidates in its tokenizer: "
            f"{candidates(added(tokenizer), ENDINGS)})."
        )


def added(tokenizer: Any | None) -> dict[int, str]:
    """The added tokens of a tokenizer."""
    return {} if tokenizer is None else {i: text for text, i in tokenizer.get_added_vocab().items()}


def wrap(
    tokenizer: Any | None, config: Any, ends: frozenset[int], mask_id: int | None, how: Plan | None = None
) -> Tokenizer:
    """A transformers tokenizer behind `Tokenizer`; where a checkpoint has none, its ids."""
    from engines.models.tokenizers.scene_words import SceneTokenizer

    if (patches := getattr(config, "patches", None)) is not None:
        return SceneTokenizer(patches)
    if tokenizer is not None:
        return HFTokenizer(tokenizer, {} if how is None else how.chat)
    named = {
        getattr(config, "bos_token_id", None): "<bos>",
        getattr(config, "pad_token_id", None): "<pad>",
        mask_id: "<mask>",
    }
    return IdTokenizer(
        config.vocab_size, {i: text for i, text in named.items() if i is not None} | dict.fromkeys(ends, "<eos>")
    )
