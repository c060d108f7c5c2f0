"""The word reader: its networks keep what their paper says, its cache and its tokens do what a reader needs."""

import json

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import Seq2SeqLM, WordReaderLM, counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.reader import HFWordReader, LetterTokenizer, load_reader
from engines.models.networks.cppd import IGNORED, character_loss, count_loss, targets, text_of
from engines.models.networks.word_reader import FEATURES, WordReader, build
from engines.models.zoo import load_model
from engines.tasks.word_images import HEIGHT, WIDTH, Look, drawn
from engines.training.core.weights import write_weights

SMALL = {"model_type": "word-reader", "letters": "abcd", "longest": 5, "hidden_size": 24, "heads": 3}


def network() -> WordReader:
    torch.manual_seed(2)
    return build(SMALL).eval()


def pictures(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, HEIGHT, WIDTH), generator=generator, dtype=torch.uint8)


def close(a: torch.Tensor, b: torch.Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=0)


@torch.no_grad()
def test_reading_with_the_character_nodes_is_reading_without() -> None:
    net = network().double()
    x = net.features(pictures(3))
    told, untold = net.parallel(x), net.parallel(x, counts=False)
    close(told.logits, untold.logits, 1e-6)
    close(told.occupied, untold.occupied, 1e-6)
    assert untold.counts is None and told.counts is not None and told.counts.shape == (3, 5, 5)
    assert told.attention.shape == (3, 3, 6, FEATURES)
    close(told.attention.sum(-1), torch.ones(3, 3, 6, dtype=torch.float64))


@torch.no_grad()
def test_one_picture_is_read_as_among_many() -> None:
    net, images = network().double(), pictures(4)
    together = net.parallel(net.features(images))
    alone = [net.parallel(net.features(image[None])) for image in images]
    close(together.logits, torch.cat([one.logits for one in alone]), 1e-9)
    close(together.occupied, torch.cat([one.occupied for one in alone]), 1e-9)


@torch.no_grad()
def test_the_cache_changes_nothing() -> None:
    """Characters fed one by one, in pieces or at once, and after a crop."""
    net = network()
    model = HFWordReader(net, ModelRecord("reader", "small", "reader"))
    seen, fed = model.see(pictures(1)[0], 3), [model.start_id, 2, 1, 4]
    whole = model.extend(fed, model.new_cache(seen))
    cache = model.new_cache(seen)
    rows = [model.extend([token], cache) for token in fed]
    close(torch.cat([row.logits for row in rows]), whole.logits)
    close(torch.cat([row.attention for row in rows], 1), whole.attention)
    assert cache.length == 2 + len(fed)
    cache.crop(4)
    close(model.extend(fed[2:], cache).logits, whole.logits[2:])
    cache.keep(3, [1])
    assert cache.length == 4
    with pytest.raises(ValueError, match="cannot be cropped to 1"):
        cache.crop(1)
    with pytest.raises(ValueError, match="9 tokens do not fit"):
        model.extend([1] * 9, cache)


def test_targets_and_losses_at_the_edges() -> None:
    wanted = targets(["aaaaa", "b"], "abcd", 5)
    assert wanted.labels.tolist() == [[1, 1, 1, 1, 1, 0], [2, 0, *[IGNORED] * 4]]
    assert wanted.counts.sum(1).tolist() == wanted.filled.sum(1).tolist() == [6, 2]
    most = torch.full((2, 5, 5), -20.0)
    most[:, :, 4] = 20.0
    assert count_loss(most[:1, 1:2], wanted.counts[:1, 1:2]) < 1e-6, "five of a letter are told as four"
    z = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    plain = torch.nn.functional.cross_entropy(z.flatten(0, 1), wanted.labels.flatten(), ignore_index=IGNORED)
    close(character_loss(z, wanted.labels, 0.0), plain)
    assert text_of([0, 1, 2], "abcd") == "" and text_of([3, 1], "abcd") == "ca" and text_of([3, 0, 1], "abcd") == "c"
    with pytest.raises(ValueError, match="substring"):
        targets(["xyz"], "abcd", 5)


def test_it_is_of_no_other_kind_and_its_calls_are_booked() -> None:
    model, meter = HFWordReader(network(), ModelRecord("reader", "small", "reader")), Meter()
    assert isinstance(model, WordReaderLM) and not isinstance(model, Seq2SeqLM)
    view = counted(model, "reader", meter)
    seen = view.see(pictures(1)[0], 2)
    assert meter.forwards == {} and meter.work == {"reader": FEATURES}
    view.glance(seen)
    assert meter.forwards == {"reader": 1}
    assert meter.work == {"reader": FEATURES + 2 * FEATURES + 2 * (6 + FEATURES) + 6}
    view.counts(seen)
    view.extend([view.start_id], view.new_cache(seen))
    assert meter.forwards == {"reader": 2} and len(meter.calls) == 3, "counting is for the record and on no clock"
    meter.forbidden = {2: {0, 1}, 4: {3}}
    logits = view.glance(seen).logits
    assert (logits == -torch.inf).nonzero().tolist() == [[0, 0], [0, 1], [2, 3]]
    with pytest.raises(ValueError, match="32 x 128 greys"):
        view.see(torch.zeros(3, 3), 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("abcdab", "'abcdab' has a length of 6.*one word of 2 to 5 letters from a to d"),
        ("a", "'a' has a length of 1;"),
        ("" * 3, "'' has a length of 0"),
        ("cafe", "does not know 'f'"),
        ("ab cd", "does not know a blank"),
        ("x" * 500, "does not know 'x'"),
    ],
)
def test_a_word_that_it_cannot_read_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        LetterTokenizer("abcd", 5).encode_prompt(text)


def test_its_letters_are_its_tokens() -> None:
    tokens = LetterTokenizer("abcd", 5)
    assert tokens.encode_prompt(" DaB ") == [4, 1, 2] and tokens.decode([4, 0, 1, 9]) == "da"
    assert [tokens.piece(i).text for i in (0, 4, 5)] == ["<end>", "d", "<unused 5>"]
    assert tokens.vocabulary() == {0: "<end>", 1: "a", 2: "b", 3: "c", 4: "d"}
    with pytest.raises(UserError, match="no token for 'z'"):
        tokens.encode("az")


def test_a_folder_is_read_as_it_was_written(tmp_path) -> None:
    net, folder = network(), tmp_path / "small"
    folder.mkdir()
    write_weights(folder, {name: t for name, t in net.state_dict().items() if t.dim()})
    (folder / "config.json").write_text(json.dumps(SMALL))
    model = load_model(folder, kind="reader")
    assert (model.record.kind, model.vocab_size, model.places) == ("reader", 5, 6)
    with torch.no_grad():
        close(model.glance(model.see(pictures(1)[0], 1)).logits, net.parallel(net.features(pictures(1))).logits[0])
    with pytest.raises(UserError, match="quantization is not an option of a word reader"):
        load_model(folder, quantization={"load_in_4bit": True})
    (folder / "config.json").write_text(json.dumps(SMALL | {"longest": 6}))
    with pytest.raises(UserError, match=r"not those its config\.json describes"):
        load_reader(folder, "small", torch.float32, "cpu", {})
    (folder / "config.json").write_text(json.dumps({"model_type": "word-reader", "letters": "ab"}))
    with pytest.raises(UserError, match="lacks longest"):
        load_reader(folder, "small", torch.float32, "cpu", {})


def test_pictures_of_words() -> None:
    plain = drawn("llama", Look())
    assert plain.shape == (HEIGHT, WIDTH) and plain.dtype == "uint8" and plain.max() == 235 and plain.min() < 40
    same = drawn("llama", Look(rotation=0.0, stretch=1.0))
    assert (plain == same).all() and (plain != drawn("llama", Look(rotation=5))).any()
    assert drawn("llama", Look(blur=3)).min() > plain.min() and drawn("llama", Look(contrast=0.2)).min() > 180
    wide = drawn("mmmmmmmmmm", Look(font="bold"))
    assert wide[:, 0].min() == wide[:, -1].min() == 235, "the longest word fits"
    noise = torch.randn(HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0)).numpy()
    assert 8 < (drawn("a", Look(noise=0.05), noise)[:, 60:] - 235.0).std() < 13
