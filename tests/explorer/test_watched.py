"""A watched run goes where every run goes: figures, films, race, hindsight, exact check, store, terminal, notebook."""

import io
import json

import pytest
import torch
from PIL import Image

import engines
import explorer
from explorer.cli import main
from explorer.export.figures import figure
from explorer.export.film import animation
from explorer.figures.clock import steps_within
from explorer.figures.hindsight import hindsight
from explorer.figures.metrics import measure
from explorer.figures.verdict import judge
from explorer.runs.store import RunStore
from explorer.words import heading

PROMPT = "sort: Mia, Leo, Ada"


def masked_loop(dlm):
    """A loop of somebody's own: the surest three tokens of the board in every forward."""
    ids = dlm.tokenizer.encode_prompt(PROMPT)
    x = torch.tensor([ids + [dlm.mask_id] * 24])
    while (x == dlm.mask_id).any():
        with torch.no_grad():
            z = dlm.model(x).logits
        z = torch.cat([z[:, :1], z[:, :-1]], 1)
        z[..., dlm.mask_id] = -torch.inf
        p, best = z.softmax(-1).max(-1)
        at = torch.where(x == dlm.mask_id, p, -1.0)[0].topk(3).indices
        x[0, at] = best[0, at]
    return x


@pytest.fixture(scope="module")
def watched():
    dlm = engines.load_model("tiny-dlm")
    with engines.watch(dlm, title="Three at a time") as seen:
        out = masked_loop(dlm)
    return seen.trace(out)


@pytest.fixture(scope="module")
def drafted():
    target, draft = engines.load_model("tiny-ar-m"), engines.load_model("tiny-ar-s")
    with engines.watch({"target": target, "draft": draft}) as seen:
        ids = torch.tensor([target.tokenizer.encode_prompt(PROMPT)])
        out = target.model.generate(
            ids, assistant_model=draft.model, max_new_tokens=12, do_sample=False, eos_token_id=sorted(target.eos_ids)
        )
    return seen.trace(out)


def test_figures_the_exact_check_race_hindsight_drawings_and_films(watched, drafted):
    for trace in (watched, drafted):
        found = {one.name: one for one in measure(trace)}
        assert found["steps"].value == len(trace.steps) and found["model_seconds"].value > 0
        assert found["warmup_seconds"].absent and judge(trace).right
    assert any("accept" in one.name for one in measure(drafted))
    assert steps_within(watched, "forwards", 3) == 3
    lens = hindsight(watched)
    assert lens.forwards == len(watched.steps) and 0 < lens.enough <= lens.forwards
    plain = engines.run("threshold", "tiny-dlm", PROMPT, params={"max_new_tokens": 24})
    assert figure([watched, plain], view="curve").startswith("<")
    assert figure(watched, view="board").startswith("<") and figure(drafted, view="tree").startswith("<")
    data, report = animation([watched, plain], clock="steps", dpi=72)
    assert Image.open(io.BytesIO(data)).n_frames > 1 and report.frames >= len(watched.steps)
    assert "Three at a time" in explorer.show([watched, plain])._repr_html_()


def test_store_and_terminal(watched, drafted, tmp_path, capsys):
    store = RunStore(tmp_path / "runs")
    name = store.save(watched)
    assert store.get(name) == watched
    path = tmp_path / "watched.json"
    path.write_text(watched.to_json(), encoding="utf-8")
    assert main(["replay", str(path)]) == 0
    assert "Three at a time" in capsys.readouterr().out
    assert main(["import", str(path), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["header"]["method"] == watched.header.method
    assert main(["replay", str(path), "--rerun"]) != 0 and "no engine here" in capsys.readouterr().err
    assert main(["fork", str(path), "--step", "2"]) != 0
    said = capsys.readouterr().err
    assert "no engine here" in said and "is the nearest" in said
    assert main(["fork", str(path), "--step", "2", "--method", "threshold"]) == 0
    assert capsys.readouterr().out.strip() == watched.text
    with pytest.raises(engines.UserError, match="no engine here"):
        explorer.lines(watched)
    assert any("params" in line and "not recorded" in line for line in heading(watched))


NOTEBOOK = explorer.ASSETS / "templates" / "watching.ipynb"


def outputs(cell):
    return "".join(
        one.get("text", "") + "".join(one.get("data", {}).get("text/html", "")) for one in cell.get("outputs", ())
    )


@pytest.mark.slow  # it starts a kernel, which imports everything anew
def test_every_cell_runs_and_three_loops_show_themselves(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed: pip install -e '.[test]'")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[test]'")
    read = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in read.cells), "a notebook is committed without its outputs"
    nbclient.NotebookClient(read, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in read.cells if cell.cell_type == "code"]
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]
    shown = [cell for cell in cells if "<iframe srcdoc" in outputs(cell)]
    assert len(shown) == 4  # three loops, and one beside an engine of ours
    titles = ("Two at a time", "Assisted generation", "Three beams", "Two at a time")
    for cell, title in zip(shown, titles, strict=True):
        assert title in outputs(cell)
    assert (tmp_path / "watched.json").is_file()
    said = next(outputs(cell) for cell in read.cells if "header.departures" in cell.source)
    assert "distribution of token i + 1" in said and "not known: params, seed" in said
