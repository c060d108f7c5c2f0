"""How single ids look, and prompts in and out."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engines.core.errors import UserError
from engines.models.tokens import BYTES, HFTokenizer, IdTokenizer, same_vocabulary


def byte_level(template: str | None = None, extra: tuple[str, ...] = ()) -> HFTokenizer:
    vocabulary = {c: i for i, c in enumerate(sorted(BYTES, key=BYTES.__getitem__))}
    vocabulary |= {word: 256 + i for i, word in enumerate(("ĠA", "da", "ĠAda", *extra))}
    core = Tokenizer(models.BPE(vocabulary, [("Ġ", "A"), ("d", "a"), ("ĠA", "da")]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    said = {"eos_token": "<eos>", "mask_token": "<mask>", "chat_template": template}
    return HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=core, **said))


def test_pieces() -> None:
    tokenizer = byte_level()
    looks = [(p.text, p.kind) for p in map(tokenizer.piece, (258, ord("x"), 0xE2, 259, 417))]
    assert looks[:3] == [(" Ada", "text"), ("x", "text"), ("0xE2", "byte")]
    assert looks[3:] == [("<eos>", "special"), ("<unused 417>", "special")]
    ids = tokenizer.encode_prompt(" Ada é世")
    assert ids[0] == 258 and tokenizer.decode([*ids, 259, 417, -1]) == " Ada é世"
    assert tokenizer.decode([0xE4, 0xB8]) == "\ufffd"


def test_byte_fallback_tokens_and_a_chat_template_that_opens_the_answer() -> None:
    core = Tokenizer(models.BPE({"<0x0A>": 0, "<0xE2>": 1, "▁the": 2}, [], byte_fallback=True))
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    tokenizer = HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=core))
    found = [(p.text, p.kind) for p in map(tokenizer.piece, range(3))]
    assert found == [("\n", "text"), ("0xE2", "byte"), (" the", "text")]
    asked = "{% for m in messages %}{{ '<' + m['content'] + '>' }}{% endfor %}"
    tokenizer = byte_level(asked + "{% if add_generation_prompt %}{{ 'A:' }}{% endif %}")
    assert tokenizer.decode(tokenizer.encode_prompt("hi")) == "<hi>A:"


def test_ids_as_text_and_which_vocabularies_are_the_same() -> None:
    tokenizer = IdTokenizer(64, {62: "<eos>", 63: "<mask>"})
    assert tokenizer.encode_prompt("1 16 5") == [1, 16, 5] and tokenizer.decode([1, 16, 62]) == "1 16"
    found = tokenizer.piece(16).text, tokenizer.piece(63).text, tokenizer.piece(64).text
    assert found == ("·16", "<mask>", "<unused 64>")
    for bad in ("hello", "1 64", "-1", "", "1.5"):
        with pytest.raises(UserError, match="no tokenizer"):
            tokenizer.encode_prompt(bad)
    assert same_vocabulary(byte_level(), byte_level("{{ 1 }}"))
    assert not same_vocabulary(byte_level(), byte_level(extra=("zz",)))
    assert not same_vocabulary(byte_level(), IdTokenizer(259))
    assert same_vocabulary(IdTokenizer(8), IdTokenizer(8))
    assert not same_vocabulary(IdTokenizer(8), IdTokenizer(8, {7: "<eos>"}))
