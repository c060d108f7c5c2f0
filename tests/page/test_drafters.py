"""A published drafter on the page: the field for it at home, what its name becomes, and that visitors have none."""

import json
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect
from safetensors.torch import save_file

import engines
from engines import UserError
from explorer.page.catalogue import Catalogue, Form, name_of
from explorer.page.run_limits import Limits
from explorer.page.starting import reads
from tests.page.test_forks import place

TARGET = "tiny-ar-m"


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Medusa heads that say what the target says next: two residual blocks of zeros, read by the target's head."""
    folder, d = tmp_path_factory.mktemp("published"), engines.load_model(TARGET).config.hidden_size
    weights = {f"{i}.0.linear.weight": torch.zeros(d, d) for i in range(2)}
    weights |= {f"{i}.0.linear.bias": torch.zeros(d) for i in range(2)}
    save_file(weights, folder / "medusa_lm_head.safetensors")
    (folder / "config.json").write_text(json.dumps({"medusa_num_heads": 2}), "utf-8")
    return folder


def with_heads() -> engines.MethodInfo:
    """The method that drafts with such heads."""
    return next(info for info in engines.list_methods() if ("medusa-heads",) in info.drafters.values())


def test_a_form_with_a_drafter_is_checked_before_anything_is_loaded(heads):
    catalogue, info = Catalogue.read(public=False), with_heads()
    plan = catalogue.read_form(Form(info.slug, f"{TARGET} + {heads}"))
    assert plan.model == f"{TARGET} + {heads}"
    plain = next(one for one in engines.list_methods() if one.kind == info.kind and not one.drafters)
    with pytest.raises(UserError, match=f"{plain.title} drafts with no published checkpoint; leave"):
        catalogue.read_form(Form(plain.slug, f"{TARGET} + {heads}"))
    with pytest.raises(UserError, match="unknown model"):
        Catalogue.read(public=True).read_form(Form(info.slug, f"{TARGET} + {heads}"))


def test_counting_a_prompt_reads_no_drafter(heads, monkeypatch):
    """It comes with the first message, which must not wait for gigabytes."""
    monkeypatch.setattr("engines.models.drafters.load_drafter", lambda *_, **__: pytest.fail("it was read"))
    model = engines.load_model(TARGET)
    plan = Form(with_heads().slug, f"{TARGET} + {heads}", {})
    assert reads(plan, "copy: Ada", Limits(1000, 100, 60, False)) == len(model.tokenizer.encode_prompt("copy: Ada"))


def test_the_name_of_a_run_has_its_drafter(heads):
    model = engines.load_model(f"{TARGET} + {heads}")
    trace = engines.run(with_heads().slug, model, "copy: Ada", params={"max_new_tokens": 8})
    assert name_of(trace) == f"{TARGET} + {heads.name}"
    assert trace.text == engines.run("greedy", TARGET, "copy: Ada", params={"max_new_tokens": 8}).text
    with pytest.raises(UserError, match=r"drafted with the checkpoint .* of a folder"):
        engines.models_of(trace.header)


def test_at_home_a_drafter_is_named_beside_the_model_and_its_run_is_forked(visit, heads):
    info = with_heads()
    screen = visit()
    field = screen.page.locator("#drafter-0")
    screen.method(0, "greedy")
    expect(field).to_be_hidden()
    screen.method(0, info.slug)
    screen.model(0, TARGET)
    expect(field).to_be_visible()
    field.fill(str(heads))
    screen.prompt("copy: Ada, Mia")
    screen.press("Run")
    screen.wait(0, "done")
    expect(screen.player(0).locator("h2 > span")).to_have_text(info.title)
    panel = place(screen, 0, 1)
    panel.get_by_role("button", name="Continue from here").click()
    screen.wait(2, "done")
    expect(screen.player(2).locator(".dx-lineage")).to_contain_text("fork of player 1 at step 1")
