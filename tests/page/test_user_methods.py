"""A method of one's own on the page: the printed template in a slot, beside its words on the Methods tab, and what a
mistake in it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import engines
from explorer import cli
from explorer.page.user_methods import CLOSED, HELP
from tests.page.conftest import PROMPT


@pytest.fixture
def served(recorded, tmp_path, capsys, registry_unchanged) -> Iterator[tuple[str, Path]]:
    """The address of a page that was started with the masked template, and the file."""
    from explorer.page.server import launch
    from explorer.runs.gallery import Gallery

    assert cli.main(["template"]) == 0
    path = tmp_path / "my.py"
    path.write_text(capsys.readouterr().out)
    engines.load_method_file(path)
    demo = launch(warm=False, traces=Gallery(recorded), quiet=True)
    yield demo.local_url, path
    demo.close()


def test_the_template_runs_in_a_slot_and_its_mistakes_are_sentences(served, visit):
    address, path = served
    one = visit(at=address)
    one.page.locator("#count").get_by_text("1", exact=True).click()
    one.method(0, "my-masked")
    expect(one.page.locator(".method-about").first).to_contain_text(
        "Writes every token whose probability reaches the threshold"
    )
    expect(one.page.locator("#model-0")).to_have_value("tiny-dlm")
    one.prompt(PROMPT)
    one.press("Run")
    one.says("Done: one run")
    expect(one.player(0).locator("h2 > span")).to_have_text("My masked method")
    expect(one.player(0).locator(".dx-mark")).to_have_text("✓ right, by the task's exact check")
    lines = path.read_text().replace("z.argmax(-1)", "z.argmaxx(-1)").splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if "argmaxx" in line)
    path.write_text("\n".join(lines) + "\n")
    engines.load_method_file(path)
    one.press("Run")
    one.says("'my-masked' failed after 0 steps: AttributeError")
    one.says(f"my.py, line {wrong}")
    one.tab("Methods")
    expect(one.page.locator("#methods")).to_contain_text("My masked method (your file my.py)")
    one.page.get_by_role("button", name="Your own method").click()
    expect(one.page.locator("#user-methods")).to_contain_text("Loaded now: my-masked")
    expect(one.page.locator("#user-methods pre")).to_have_count(2)
    expect(one.page.locator("#user-methods pre").first).to_contain_text("edit = yield run.step(")


def test_the_way_to_the_program_is_the_readme_s():
    readme = (cli.ASSETS.parent / "README.md").read_text("utf-8")
    install = readme.split("## Install")[1].split("```bash\n")[1].split(" && ")[0]
    assert install.startswith("pip install ") and f"`{install}`" in HELP


def test_a_public_host_says_that_it_takes_none(monkeypatch):
    from explorer.page.catalogue import Catalogue
    from explorer.page.handlers import Handlers
    from explorer.page.limits import Limits
    from explorer.page.user_methods import gr, section
    from explorer.runs.gallery import Gallery, gallery

    assert isinstance(gallery(), Gallery)
    said = []
    monkeypatch.setattr(gr, "Markdown", said.append)
    with gr.Blocks():
        section(Handlers(gallery(), Catalogue.read(public=True), Limits(1000, 100, 60, True)))
    assert said[1] == CLOSED
