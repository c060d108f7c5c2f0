"""What reads words and what looks at scenes: the networks, their caches and tokens, their bookings, their folders."""

import json

import torch

from engines.core.errors import UserError
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.reader import LOADED, HFWordReader, LetterTokenizer
from engines.models.adapters.scene import CaptionTokenizer, HFSceneEye
from engines.models.files import smollm2
from engines.models.loading import zoo
from engines.models.loading.zoo import load_model
from engines.models.networks import scene_eye
from engines.models.networks.cppd import IGNORED, character_loss, count_loss, targets, text_of
from engines.models.networks.word_reader import FEATURES, WordReader, build
from engines.tasks.word_images import HEIGHT, WIDTH
from engines.training.core.weights import write_weights
from tests.engines.models.stock import close
from tests.engines.refusals import refuses

SMALL = {"model_type": "word-reader", "letters": "abcd", "longest": 5, "hidden_size": 24, "heads": 3}


def network() -> WordReader:
    torch.manual_seed(2)
    return build(SMALL).eval()


def pictures(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, HEIGHT, WIDTH), generator=generator, dtype=torch.uint8)


@torch.no_grad()
def test_reading_with_the_character_nodes_is_reading_without_and_alone_as_among_many() -> None:
    net, images = network().double(), pictures(3)
    x = net.features(images)
    told, untold = net.parallel(x), net.parallel(x, counts=False)
    alone = [net.parallel(net.features(image[None])) for image in images]
    for name in ("logits", "occupied"):
        close(getattr(told, name), getattr(untold, name), 1e-6)
        close(getattr(told, name), torch.cat([getattr(one, name) for one in alone]), 1e-9)
    assert untold.counts is None and told.counts is not None and told.counts.shape == (3, 5, 5)
    assert told.attention.shape == (3, 3, 6, FEATURES)
    close(told.attention.sum(-1), torch.ones(3, 3, 6, dtype=torch.float64))


@torch.no_grad()
def test_the_cache_changes_nothing() -> None:
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
    refuses(ValueError, "cannot be cropped to 1", cache.crop, 1)
    refuses(ValueError, "9 tokens do not fit", model.extend, [1] * 9, cache)


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
    refuses(ValueError, "substring", targets, ["xyz"], "abcd", 5)


def test_its_calls_are_booked() -> None:
    meter = Meter()
    view = counted(HFWordReader(network(), ModelRecord("reader", "small", "reader")), "reader", meter)
    seen = view.see(pictures(1)[0], 2)
    assert meter.forwards == {} and meter.work == {"reader": FEATURES}
    view.glance(seen)
    assert meter.forwards == {"reader": 1}
    assert meter.work == {"reader": FEATURES + 2 * FEATURES + 2 * (6 + FEATURES) + 6}
    view.counts(seen)
    view.extend([view.start_id], view.new_cache(seen))
    assert meter.forwards == {"reader": 2} and len(meter.calls) == 3, "counting is for the record and on no clock"
    meter.forbidden = {2: {0, 1}, 4: {3}}
    assert (view.glance(seen).logits == -torch.inf).nonzero().tolist() == [[0, 0], [0, 1], [2, 3]]
    refuses(ValueError, "32 x 128 greys", view.see, torch.zeros(3, 3), 2)


def test_its_letters_are_its_tokens_and_a_word_that_it_cannot_read_is_refused() -> None:
    tokens = LetterTokenizer("abcd", 5)
    assert tokens.encode_prompt(" DaB ") == [4, 1, 2] and tokens.decode([4, 0, 1, 9]) == "da"
    assert [tokens.piece(i).text for i in (0, 4, 5)] == ["<end>", "d", "<unused 5>"]
    assert tokens.vocabulary() == {0: "<end>", 1: "a", 2: "b", 3: "c", 4: "d"}
    refuses(UserError, "no token for 'z'", tokens.encode, "az")
    for text, sentence in (
        ("abcdab", "'abcdab' has a length of 6.*one word of 2 to 5 letters from a to d"),
        ("", "'' has a length of 0"),
        ("cafe", "does not know 'f'"),
        ("ab cd", "does not know a blank"),
    ):
        refuses(UserError, sentence, tokens.encode_prompt, text)


def test_a_folder_is_read_as_it_was_written(tmp_path) -> None:
    net, folder = network(), tmp_path / "small"
    folder.mkdir()
    write_weights(folder, {name: t for name, t in net.state_dict().items() if t.dim()})
    (folder / "config.json").write_text(json.dumps(SMALL))
    model = load_model(folder, kind="reader")
    assert (model.record.kind, model.vocab_size, model.places) == ("reader", 5, 6)
    with torch.no_grad():
        close(model.glance(model.see(pictures(1)[0], 1)).logits, net.parallel(net.features(pictures(1))).logits[0])
    refuses(UserError, "quantization is not an option of a", load_model, folder, quantization={"load_in_4bit": True})
    lacking = {"model_type": "word-reader", "letters": "ab"}
    for config, said in ((SMALL | {"longest": 6}, r"not those its config\.json describes"), (lacking, "lacks longest")):
        (folder / "config.json").write_text(json.dumps(config))
        refuses(UserError, said, LOADED[0], folder, "small", torch.float32, "cpu", {})


EYE = {"model_type": "scene-eye", "words": ["a", "red", "bus"], "longest": 5, "hidden_size": 24, "heads": 3}
EYE |= {"channels": [4, 8, 8]}


def eye_network() -> scene_eye.SceneEye:
    torch.manual_seed(2)
    return scene_eye.build(EYE).eval()


def looking() -> HFSceneEye:
    return HFSceneEye(eye_network(), ModelRecord("scene", "small", "scene"))


def scene() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (scene_eye.HEIGHT, scene_eye.WIDTH, 3), generator=generator, dtype=torch.uint8)


@torch.no_grad()
def test_the_cache_of_a_caption_changes_nothing() -> None:
    eye, fed = looking(), [4, 2, 1, 3]
    seen = eye.look(scene())
    assert seen.mask.shape == (scene_eye.HEIGHT, scene_eye.WIDTH) and 0 <= seen.mask.min() <= seen.mask.max() <= 1
    whole = eye.extend(fed, eye.new_cache(seen)).logits
    cache = eye.new_cache(seen)
    rows = torch.cat([eye.extend([token], cache).logits for token in fed])
    torch.testing.assert_close(rows, whole, atol=1e-5, rtol=0)
    refuses(ValueError, "3 words do not fit behind 4 of 6", eye.extend, [1] * 3, cache)
    refuses(ValueError, "128 x 256 x 3 bytes", eye.look, torch.zeros(3, 3))


def test_its_calls_are_booked_and_a_person_forbids_no_word_of_a_caption() -> None:
    eye, meter = looking(), Meter(forbidden={0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}})
    view = counted(eye, "scene", meter)
    seen = view.look(scene())
    assert meter.forwards == {"scene": 1} and meter.work == {"scene": eye.eye_layers}
    assert view.extend([view.start_id], view.new_cache(seen)).logits.isfinite().all()
    assert meter.forwards == {"scene": 2} and meter.work == {"scene": eye.eye_layers + 2}


def test_its_words_are_its_tokens_and_the_first_companion_that_is_there_plays(monkeypatch) -> None:
    tokens = CaptionTokenizer(["a", "red", "bus"])
    assert tokens.encode_prompt(" A red BUS ") == [1, 2, 3] and tokens.decode([1, 0, 3, 9]) == "a bus"
    assert tokens.vocabulary() == {0: "<end>", 1: "a", 2: "red", 3: "bus"}
    assert tokens.piece(9).kind == "special"
    refuses(UserError, "no word 'blue'", tokens.encode, "a blue bus")
    for there, name in ((True, smollm2.NAME), (False, "tiny-ar-m")):
        monkeypatch.setattr(smollm2, "ready", lambda there=there: there)
        assert zoo.companion("tiny-reader", "language") == name
    assert zoo.companion("tiny-reader", "scene") == "tiny-scenes"


def test_a_folder_of_an_eye_is_read_as_it_was_written(tmp_path) -> None:
    net, folder = eye_network(), tmp_path / "small"
    folder.mkdir()
    write_weights(folder, {name: t for name, t in net.state_dict().items() if t.dim()})
    (folder / "config.json").write_text(json.dumps(EYE))
    eye = load_model(folder, kind="scene")
    assert eye.record.kind == "scene" and eye.warm_up() > 0 and eye.warm_up() == 0.0
    assert torch.equal(eye.look(scene()).mask, HFSceneEye(net, eye.record).look(scene()).mask)
    refuses(UserError, "quantization is not an option of a", load_model, folder, quantization={"load_in_4bit": True})
    for changed, sentence in (
        (EYE | {"channels": [4, 8, 16]}, r"not those its config\.json describes"),
        ({"model_type": "scene-eye", "words": ["a"]}, "lacks longest"),
    ):
        (folder / "config.json").write_text(json.dumps(changed))
        zoo._loaded.clear()
        refuses(UserError, sentence, load_model, folder)
