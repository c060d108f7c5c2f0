"""RAPID's step tried again with another strength: the player's rule is the engine's, and the slider in the view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

import engines
from engines.core.trace import Step, Trace
from engines.methods.speculative.rapid import listed
from engines.methods.speculative.rapid.opinions import Opinions
from engines.methods.speculative.rapid.transfer import Transfer
from engines.tasks.documents import passage

Open = Callable[..., Any]
Call = Callable[..., Any]
SHORT = {"chunk": 8, "keep": 24, "max_new_tokens": 16}
FATE = {"both": "accepted", "view": "accepted", "lost": "mismatch", "refused": "mismatch", "behind": "unreached"}


def decode(**params: Any) -> Trace:
    return engines.run("rapid", "tiny-ar-l", passage(1, 8).prompt, params=SHORT | params)


@pytest.fixture(scope="module")
def put_right() -> Trace:
    return decode()


def told(js: Call, step: Step, **rule: float) -> list[str]:
    """What the player says of each drafted token of a step."""
    given = msgspec.to_builtins(step) | step.records
    return js("leaning.js", "M.decide(M.opinionsOf(step), {...step.opinions.rule, ...rule})", step=given, rule=rule)


@pytest.mark.parametrize("eta", [0.0, 3.0, 10.0, 50.0])
def test_the_moved_distribution_is_the_engines(js: Call, eta: float) -> None:
    rng = torch.Generator().manual_seed(int(eta))
    for _ in range(4):
        z, y = (2 * torch.randn(40, generator=rng, dtype=torch.float64) for _ in range(2))
        q, alpha = y.softmax(-1), 0.3
        one = Transfer.of(z, q, eta, alpha)
        tokens = listed(one, int(q.argmax()))
        assert {t for t in range(40) if one.mask[t]} <= {*tokens}  # all that moves is recorded here
        p = z.softmax(-1)
        found = js(
            "leaning.js", "M.transfer(p, q, eta, alpha)", p=p[tokens].tolist(), q=q[tokens].tolist(), eta=eta, alpha=0.3
        )
        assert found["moved"] == pytest.approx(one.p_hat[tokens].tolist(), abs=1e-9)
        assert found["rest"] == pytest.approx(1 - float(one.p_hat[tokens].sum()), abs=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_recorded_strength_gives_the_recorded_fates(js: Call, temperature: float) -> None:
    trace = decode(temperature=temperature, eta=4.0)
    for step in trace.steps:
        assert step.tree and (opinions := step.record("opinions", Opinions)) and not any(opinions.unlisted)
        assert opinions.rule == {"eta": 4.0, "alpha": 0.1, "temperature": temperature}
        assert [FATE[fate] for fate in told(js, step)] == step.tree.why[1:]
        given = msgspec.to_builtins(step) | step.records
        rows = js("leaning.js", "M.opinionsOf(step)", step=given)
        assert [row["token"] for row in rows] == step.tree.tokens[1:]
        for row, chance, u in zip(rows, step.tree.chances[1:], step.tree.uniforms[1:], strict=True):
            moved = js("leaning.js", "M.transfer(p, q, 4, 0.1).moved", p=row["p"], q=row["q"])
            assert row["u"] == u
            if u is not None:
                assert min(1.0, moved[0] / row["q"][0]) == pytest.approx(chance, abs=1e-5)


@pytest.mark.parametrize("eta", [0.0, 2.0, 40.0])
def test_another_strength_says_what_the_engine_does_with_it(js: Call, put_right: Trace, eta: float) -> None:
    """The first step: the same drafts are tested there, whatever eta is."""
    other = decode(eta=eta).steps[0]
    assert other.tree and put_right.steps[0].tree and other.tree.tokens == put_right.steps[0].tree.tokens
    assert [FATE[fate] for fate in told(js, put_right.steps[0], eta=eta)] == other.tree.why[1:]


def test_where_no_number_was_drawn_nothing_is_claimed(js: Call) -> None:
    rows = [{"p": [0.1], "q": [0.5], "u": 0.6}, {"p": [0.5], "q": [0.5], "u": None}]
    rule = {"eta": 0, "alpha": 0.1, "temperature": 1}
    assert js("leaning.js", "M.decide(rows, rule)", rows=rows, rule=rule) == ["refused", "behind"]
    rows[0]["u"] = 0.1
    assert js("leaning.js", "M.decide(rows, rule)", rows=rows, rule=rule) == ["both", "unknown"]
    assert js("leaning.js", "M.opinionsOf(undefined)") == []


def test_the_slider_refuses_the_answer_and_goes_back(opened: Open, put_right: Trace) -> None:
    for options in ({}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}):
        page = opened([put_right], folded=True, **options).page
        view = page.locator('[data-view="Passages"] .dx-leaning')
        page.evaluate("handles[0].seek(1)")
        said, back = view.locator(".dx-readout").first, view.get_by_role("button", name="as recorded")
        assert "with η = 10, as recorded: 5 of 5; 3 with η = 0" in said.inner_text() and back.is_disabled()
        looked = view.locator('[aria-pressed="true"]')
        assert "yellow" in looked.inner_text() and looked.locator('[data-s="mixed"]').count() == 1
        view.get_by_role("button", name="η = 0").click()
        assert said.inner_text().endswith("With η = 0: 3.") and looked.locator('[data-s="rejected"]').count() == 1
        slider = view.get_by_role("slider")
        slider.focus()
        page.keyboard.press("End")
        assert "With η = 50:" in said.inner_text()
        back.click()
        assert "With η" not in said.inner_text() and looked.locator('[data-s="mixed"]').count() == 1
        view.locator('[role="group"] button').first.click()
        assert "yellow" not in looked.inner_text()


def test_a_record_without_opinions_does_not_show_it(opened: Open, put_right: Trace) -> None:
    earlier = engines.read_trace(put_right.to_json())
    for step in earlier.steps:
        step.records = {}
    page = opened([earlier], folded=True).page
    page.evaluate("handles[0].seek(1)")
    assert page.locator('[data-view="Passages"]').is_visible()
    assert not page.locator(".dx-leaning").is_visible()
