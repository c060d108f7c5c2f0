"""What looks at scenes: its networks, its cache and its tokens, its bookings, and folders that do not fit."""

import json

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import SceneLM, WordReaderLM, counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models import smollm2, zoo
from engines.models.adapters.scene import CaptionTokenizer, HFSceneEye
from engines.models.networks.scene_eye import HEIGHT, WIDTH, SceneEye, build
from engines.models.zoo import load_model
from engines.training.core.weights import write_weights

SMALL = {
    "model_type": "scene-eye",
    "words": ["a", "red", "bus"],
    "longest": 5,
    "hidden_size": 24,
    "heads": 3,
    "channels": [4, 8, 8],
}


def network() -> SceneEye:
    torch.manual_seed(2)
    return build(SMALL).eval()


def model() -> HFSceneEye:
    return HFSceneEye(network(), ModelRecord("scene", "small", "scene"))


def picture(seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (HEIGHT, WIDTH, 3), generator=generator, dtype=torch.uint8)


def test_a_look_has_a_mask_of_probabilities_as_large_as_the_picture() -> None:
    seen = model().look(picture())
    assert seen.mask.shape == (HEIGHT, WIDTH) and 0 <= seen.mask.min() <= seen.mask.max() <= 1
    with pytest.raises(ValueError, match="128 x 256 x 3 bytes"):
        model().look(torch.zeros(3, 3))


@torch.no_grad()
def test_the_cache_changes_nothing() -> None:
    eye, fed = model(), [4, 2, 1, 3]
    seen = eye.look(picture())
    whole = eye.extend(fed, eye.new_cache(seen)).logits
    cache = eye.new_cache(seen)
    rows = torch.cat([eye.extend([token], cache).logits for token in fed])
    torch.testing.assert_close(rows, whole, atol=1e-5, rtol=0)
    assert cache.length == 4
    with pytest.raises(ValueError, match="3 words do not fit behind 4 of 6"):
        eye.extend([1] * 3, cache)


def test_its_calls_are_booked_and_a_person_forbids_no_word_of_a_caption() -> None:
    eye, meter = model(), Meter()
    assert isinstance(eye, SceneLM) and not isinstance(eye, WordReaderLM)
    view = counted(eye, "scene", meter)
    meter.forbidden = {0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}}
    seen = view.look(picture())
    assert meter.forwards == {"scene": 1} and meter.work == {"scene": eye.eye_layers}
    assert view.extend([view.start_id], view.new_cache(seen)).logits.isfinite().all()
    assert meter.forwards == {"scene": 2} and meter.work == {"scene": eye.eye_layers + 2}


def test_its_words_are_its_tokens() -> None:
    tokens = CaptionTokenizer(["a", "red", "bus"])
    assert tokens.encode_prompt(" A red BUS ") == [1, 2, 3] and tokens.decode([1, 0, 3, 9]) == "a bus"
    assert tokens.vocabulary() == {0: "<end>", 1: "a", 2: "red", 3: "bus"}
    assert tokens.piece(9).kind == "special"
    with pytest.raises(UserError, match="no word 'blue'"):
        tokens.encode("a blue bus")


def test_a_folder_is_read_as_it_was_written(tmp_path) -> None:
    net, folder = network(), tmp_path / "small"
    folder.mkdir()
    write_weights(folder, {name: t for name, t in net.state_dict().items() if t.dim()})
    (folder / "config.json").write_text(json.dumps(SMALL))
    eye = load_model(folder, kind="scene")
    assert eye.record.kind == "scene" and eye.warm_up() > 0 and eye.warm_up() == 0.0
    assert torch.equal(eye.look(picture()).mask, HFSceneEye(net, eye.record).look(picture()).mask)
    with pytest.raises(UserError, match="quantization is not an option of a model that looks at scenes"):
        load_model(folder, quantization={"load_in_4bit": True})
    for changed, sentence in (
        (SMALL | {"channels": [4, 8, 16]}, r"not those its config\.json describes"),
        ({"model_type": "scene-eye", "words": ["a"]}, "lacks longest"),
    ):
        (folder / "config.json").write_text(json.dumps(changed))
        zoo._loaded.clear()
        with pytest.raises(UserError, match=sentence):
            load_model(folder)


def test_of_several_companions_the_first_that_is_there_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, name in ((True, smollm2.NAME), (False, "tiny-ar-m")):
        monkeypatch.setattr(smollm2, "ready", lambda there=there: there)
        assert zoo.companion("tiny-reader", "language") == name
    assert zoo.companion("tiny-reader", "scene") == "tiny-scenes"
