"""The pictures of masks, canvases, tokens and paths say what was recorded."""

from collections import Counter

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from explorer.figures.handed import shown
from tests.player.pictures import Panel, Stage, decoded, until


def test_a_block_behind_a_causal_text_says_what_was_written(stage: Stage) -> None:
    trace, drawn = decoded("OpenBlock"), 0
    picture = stage.show(trace, "OpenBlock")
    for step, now in picture.beside(trace, masks="svg g[data-s=masked] > rect[rx='6']"):
        block = step.records.get("openblock")
        if not block:
            assert now["said"] == ["No block is open: the text is read."]
            continue
        masks = block["tokens"].count(block["mask"])
        said = f"{len(block['written'])} written in this pass, {masks} masks left."
        if not block["written"]:
            assert masks == 0
            said = f"The full block of {len(block['tokens'])} is read once more, and kept."
        assert said in now["said"][0] and len(now["masks"]) == masks
        drawn += 1
    assert drawn > 1


def test_edits_say_what_was_written_replaced_and_came_back(stage: Stage) -> None:
    trace, back, struck = decoded("Edits"), 0, 0
    selectors = {"bars": "svg g[data-s] > rect[rx='3']", "struck": 'text[text-decoration="line-through"]'}
    for step, now in stage.show(trace, "Edits").beside(trace, **selectors):
        edits = step.records["edits"]
        fates = Counter(edits["fates"])
        masks, tokens = fates["written"] + fates["open"], fates["changed"] + fates["kept"] + fates["doubted"]
        said = f"Masks: {fates['written']} of {masks} written" if masks else "No mask is left in the block."
        assert said in now["said"][0] and f"Tokens: {fates['changed']} of {tokens} replaced" in now["said"][0]
        restored = sum(f == "changed" and n > 0 for f, n in zip(edits["fates"], edits["before"], strict=True))
        assert sum("↩" in words for words in now["words"]) == restored
        assert len(now["bars"]) == masks + tokens - fates["kept"]
        changed = step.commits.causes.count("changed") if step.commits else 0
        assert len(now["struck"]) >= changed
        back, struck = back + restored, struck + changed
    assert back and struck


def test_what_goes_what_comes_and_where_the_rest_stands(stage: Stage) -> None:
    trace, seen = decoded("places that move"), Counter[str]()
    for step, now in stage.show(trace, "Edits").beside(trace, arcs="svg path.dx-arc"):
        if "edits" not in step.records:
            continue
        edits, commits = step.records["edits"], step.commits
        all_ = Counter(edits["fates"]) + Counter(commits.causes)
        signs = {"delete": ("deleted",), "insert": ("split",), "no room": ("pushed",), "✕": ("deleted", "pushed")}
        for words, kinds in {**signs, "+ ?": ("inserted", "appended")}.items():
            assert sum(words in text for text in now["words"]) == sum(all_[kind] for kind in kinds), words
        stays = [(q, commits.moved(q)) for q in edits["positions"]]
        assert len(now["arcs"]) == sum(after is not None and after != q for q, after in stays)
        for name, kind in {"Deleted": "deleted", "Masks inserted": "inserted", "No room": "pushed"}.items():
            said = f"{name}: {all_[kind]}."
            assert said in now["said"][0] if all_[kind] else f"{name}:" not in now["said"][0]
        seen += all_
    assert min(seen[kind] for kind in ("deleted", "split", "pushed", "changed", "inserted", "appended")) > 0


@pytest.mark.parametrize("name", ["Canvas", "block refinement", "a corrected canvas"])
def test_a_canvas_says_how_many_were_accepted_and_has_a_chip_for_each(stage: Stage, name: str) -> None:
    trace = decoded(name)
    selectors = {"chips": 'svg g[data-s] > rect[rx="6"]', "dots": "circle"}
    for step, now in stage.show(trace, "Canvas").beside(trace, **selectors):
        record = step.records["canvas"]
        n, accepted, kind = len(record["after"]), len(record.get("accepted", [])), record["kind"]
        said = {"drawn": f"{n} tokens drawn at random", "correct": f"draws {accepted} of {n} tokens anew"}
        assert said.get(kind, f"{accepted} of {n} ") in now["said"][0]
        if name == "Canvas":
            assert len(now["chips"]) == n * (1 + (kind == "denoise")) and len(now["dots"]) == step.index
    causes = Counter(cause for step in trace.steps for cause in step.commits.causes)
    assert name != "Canvas" or causes.keys() >= {"noise", "accepted", "settled"}


def large(steps: int) -> Trace:
    """256 positions, as the published model has, other noise in each step."""
    trace = decoded("Canvas")
    start = len(trace.header.prompt_ids)
    record = {"number": 0, "step": 1, "steps": 48, "start": start, "line": 0.1, "quiet": 0.005, "mean_entropy": 3.0}
    del trace.steps[steps:]
    for step in trace.steps:
        ids = [20 + (i * 7 + step.index * 11) % 50 for i in range(256)]
        step.commits.positions, step.commits.tokens = list(range(start, start + 256)), ids
        step.commits.causes, step.commits.probabilities = ["noise"] * 256, []
        step.scores, step.candidates = [], None
        told = {
            "kind": "denoise",
            "entropies": [0.01 * (i % 7) for i in range(256)],
            "joint": [0.4 * (i % 7) for i in range(256)],
            "sampled": ids,
            "accepted": [start],
        }
        step.records["canvas"] = {**record, "before": ids, "after": ids} | (told if step.index else {"kind": "drawn"})
    trace.end.output_ids = ids
    return trace


WORDS = "[...document.querySelectorAll('.dx-cells .dx-cell')].map((cell) => cell.textContent)"


def test_cells_out_of_sight_wait_for_the_scrubbing_to_rest(stage: Stage) -> None:
    trace, right = large(6), {}
    picture = stage.show(trace, "Canvas", Panel(1200))
    page = picture.page
    for t in (2, 5):  # as a player shows it that never showed another step
        page.evaluate("([text, at]) => handles[0].load(text, { at })", [shown(trace), t])
        until(page, f"() => {WORDS}.every(Boolean)")
        right[t] = page.evaluate(WORDS)
    expect(picture.seen('svg g[data-s] > rect[rx="6"]')).to_have_count(256)  # one row, without what was read
    assert right[2][:256] != right[5][:256]
    at_once = page.evaluate(f"() => {{ handles[0].seek(2); return {WORDS}; }}")
    seen, late = ([now == then for now, then in zip(at_once, right[t], strict=True)] for t in (2, 5))
    assert all(seen[:12]), "what is seen is there at once"
    assert sum(late) > 128 and late[255]
    until(page, f"(right) => `${{{WORDS}}}` === `${{right}}`", right[2])
    page.evaluate("() => [5, 2].forEach((t) => handles[0].seek(t))")
    scrolled = page.evaluate(
        f"""() => new Promise((done) => {{ const board = document.querySelector(".dx-board");
          board.scrollTop = 500;
          board.addEventListener("scroll", () => setTimeout(() => done({WORDS})), {{ once: true }}); }})"""
    )
    assert (scrolled == right[2]) is True, "and all where a person scrolls"


def test_forms_and_searches_say_how_they_ended(stage: Stage) -> None:
    trace = decoded("Form")
    picture = stage.show(trace, "Form")
    picture.seek(1)
    assert len(picture.words(".dx-blank")) == 48 - len(trace.steps[0].commits.positions)
    expect(picture.seen("image")).to_have_count(1)
    trace = decoded("Frontier")
    picture = stage.show(trace, "Frontier")
    picture.seek(next(step.index for step in trace.steps if "the search returns to" in step.note) + 1)
    assert "back to" in picture.words("text")
    trace = engines.run("learn2pd-oracle", "tiny-dlm", "add: 457 + 286", params={"decides": "filter"})
    picture = stage.show(trace, "Filtering")
    picture.seek(len(trace.steps) - 1)
    expect(picture.seen(".dx-over").filter(has_text="✓").first).to_be_visible()


def test_each_flag_says_whether_its_answer_is_right(stage: Stage) -> None:
    trace = engines.run("ffs", "tiny-reasoner-s", "8+9*3+0-8", params={"n": 8, "let_finish": True})
    vote = trace.steps[-1].records["vote"]
    picture = stage.show(trace, "Lines")
    picture.seek(len(trace.steps))
    words, said = picture.words("text"), [vote["answers"][of] for of in vote["of"]]
    flags = [f"⚑ {answer} {'✓ right' if answer == '3' else '✕ wrong'}" for answer in said]
    assert [text for text in words if "⚑" in text] == flags
    written = Counter(branch.id for step in trace.steps for branch in step.branches for _ in branch.tokens)
    assert f"first flag, after {min(written.values()) - 1} tokens" in " ".join(words)
