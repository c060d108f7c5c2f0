"""The notebook in assets/templates runs from its first cell to its last, as it is."""

from pathlib import Path

import pytest

import explorer

pytestmark = pytest.mark.slow  # it starts a kernel, which imports everything anew

NOTEBOOK = explorer.ASSETS / "templates" / "watching.ipynb"

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed: pip install -e '.[test]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[test]'")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("notebook")
    read = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in read.cells), "a notebook is committed without its outputs"
    nbclient.NotebookClient(read, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    return read, folder


def outputs(cell):
    return "".join(
        one.get("text", "") + "".join(one.get("data", {}).get("text/html", "")) for one in cell.get("outputs", ())
    )


def test_every_cell_runs_and_three_loops_show_themselves(book):
    read, folder = book
    cells = [cell for cell in read.cells if cell.cell_type == "code"]
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]
    shown = [cell for cell in cells if "<iframe srcdoc" in outputs(cell)]
    assert len(shown) == 4  # three loops, and one beside an engine of ours
    titles = ("Two at a time", "Assisted generation", "Three beams", "Two at a time")
    for cell, title in zip(shown, titles, strict=True):
        assert title in outputs(cell)
    assert (folder / "watched.json").is_file()
    said = next(outputs(cell) for cell in read.cells if "header.departures" in cell.source)
    assert "distribution of token i + 1" in said and "not known: params, seed" in said
