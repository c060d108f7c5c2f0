"""How single ids look, and prompts in and out."""

import multiprocessing
import os
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engines.core.errors import UserError
from engines.models.loading.vocabulary import eos_ids
from engines.models.tokenizers import templates
from engines.models.tokenizers.tokens import BYTES, HFTokenizer, IdTokenizer, same_vocabulary


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


LOOP = "{% for m in messages %}" + "{{ m.role }}: {{ m.content | tojson }}" + "{% endfor %}"
FORMS = [
    LOOP + "{% if tools is none and add_generation_prompt %}{{ eos_token }}{% endif %}",
    "{% set n = namespace(k=1) %}{% for m in messages %}{% set n.k = n.k + 1 %}{% continue %}no{% endfor %}{{ n.k }}",
    "{% for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}{% break %}{% endfor %}",
    "  {%- if messages[0].get('x', dict(a=1).a) == 1 %}\n    yes\n  {%- endif %}{{ messages | tojson(indent=2) }}",
    "{{ strftime_now('%Y')[:2] }}{{ {'b': 'é', 'a': [true, none]} | tojson }}{{ mask_token ~ nothing }}",
]


@pytest.mark.parametrize("template", FORMS)
def test_a_template_is_rendered_as_transformers_renders_it(template):
    tokenizer = byte_level(template)
    for said in ("hi", '<b> & "é世"\n', "{{ 7 * 7 }}"):
        turn = [{"role": "user", "content": said}]
        wanted = tokenizer.tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
        assert tokenizer.encode_prompt(said) == list(wanted)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ 7 ** (10 ** 9) }}", "did not come to an end within 0.5 seconds"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "did not come to an end"),
        ("{{ ('a' * 10 ** 9) * 9 }}", "refuses this prompt: MemoryError"),
        ("{{ 'a' * 10 ** 7 }}", "it makes 10,000,000 characters of it"),
        ("{% if true %}" * 400 + "{% endif %}" * 400, "refuses this prompt"),
        ("{{ raise_exception('no \x1b[31mturn') }}", r"no \\x1b\[31mturn; change the prompt"),
        ("{{ nothing.at_all }}", "'nothing' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "unsafe|undefined"),
        ("{% set n = namespace(a=1) %}{% set n.__x = 1 %}", "a namespace has no '__x'"),
        ("{% if %}", "refuses this prompt"),
    ],
)
def test_a_template_of_a_stranger_is_bounded_and_what_it_says_is_legible(template, said, monkeypatch):
    assert byte_level("{{ 1 + 1 }}").encode_prompt("") == byte_level().encode_prompt("2")
    if "end" in said:
        monkeypatch.setattr(templates, "SECONDS", 0.5)
    with pytest.raises(UserError, match=said):
        byte_level(template).encode_prompt("hi")
    monkeypatch.undo()
    assert byte_level("{{ 1 + 1 }}").encode_prompt("") == byte_level().encode_prompt("2"), "the next is answered"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_fork_renders_templates_by_a_process_of_its_own():
    tokenizer, context = byte_level("{{ 1 + 1 }}"), multiprocessing.get_context("fork")
    wanted = tokenizer.encode_prompt("")
    process = context.Process(target=lambda: os._exit(tokenizer.encode_prompt("") != wanted), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == 0 and tokenizer.encode_prompt("") == wanted
    process.kill()


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


HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>")


@pytest.mark.parametrize(
    ("marks", "own", "ends"),
    [
        ((*HARMONY, "<|return|>", "<|call|>"), ("<|return|>", "<|call|>"), ("<|return|>", "<|call|>")),
        ((*HARMONY, "<|return|>"), ("<|return|>",), ("<|return|>",)),  # tunes that have one of the two
        ((*HARMONY, "<|call|>"), ("<|call|>",), ("<|call|>",)),
        ((*HARMONY, "<|return|>"), ("<|return|>", "<|end|>"), ("<|return|>", "<|end|>")),  # which say it themselves
        (("<|end|>", "<|user|>"), ("<|endoftext|>",), ("<|endoftext|>", "<|end|>")),  # Phi's turns end with it
        (("<|im_start|>", "<|im_end|>"), ("<|endoftext|>",), ("<|endoftext|>", "<|im_end|>")),
    ],
)
def test_a_mark_between_messages_does_not_end_the_answer(marks, own, ends) -> None:
    """osaurus-ai/vmlx-swift#254: gpt-oss closes its thoughts with <|end|>; others end a turn with it, or with a mark
    that their settings forgot."""
    core = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"w": 0}, unk_token="w")))
    core.add_special_tokens({"additional_special_tokens": [*marks, "<|endoftext|>"]})
    ids = core.convert_tokens_to_ids
    config = SimpleNamespace(eos_token_id=None, get_text_config=lambda: None)
    settings = SimpleNamespace(eos_token_id=[ids(mark) for mark in own])
    network = SimpleNamespace(config=config, generation_config=settings, can_generate=lambda: True)
    assert eos_ids(network, core) == {ids(mark) for mark in ends}
