"""Views beside a person's own method files: found by the record, carried by exported pages, refused with a sentence."""

from pathlib import Path

import pytest

import engines
from explorer.export.bundle import OWN, bundle, own_files, own_scripts, own_views, view_script, views_of
from explorer.export.html import export_html
from tests import own_record
from tests.engines.fakes import TableCausal
from tests.player.handmade import masked

pytestmark = pytest.mark.usefixtures("registry_unchanged")


def decoded() -> engines.Trace:
    return engines.run("my-hops", TableCausal(), [1, 2], params={"max_new_tokens": 3})


def test_a_view_beside_the_method_file_is_found_by_its_record(tmp_path: Path) -> None:
    engines.load_method_file(own_record.written(tmp_path))
    assert own_files() == {"hops": tmp_path / "hops.js"}
    (view,) = own_views()
    assert (view.file, view.name, view.needs) == (OWN + "hops", "Hops", ("hops",))
    text = decoded().to_json()
    assert views_of([text])[-2:] == (OWN + "hops", "record")
    assert "hops" not in "".join(views_of([masked(24, 4).to_json()]))
    (own,) = own_scripts(views_of([text]))
    assert 'define("own/hops.js"' in own and '"record": "hops"' in bundle(views_of([text]))
    assert "floor ${hops.floor}" in view_script(OWN + "hops")
    assert "floor ${hops.floor}" in export_html(decoded())
    (tmp_path / "hops.js").write_text(own_record.VIEW.replace("floor $", "storey $"), "utf-8")
    assert "storey $" in export_html(decoded()), "a changed view is carried as it is now"
    (tmp_path / "hops.js").unlink()
    assert own_files() == {} and views_of([text])[-1] == "record", "without a view there is the table"


def test_a_record_that_ships_keeps_its_view(tmp_path: Path) -> None:
    file = own_record.written(tmp_path)
    method = own_record.METHOD.replace('{"hops": Hops}', '{"hops": Hops, "vote": Vote}')
    own = "from engines.methods.reasoning._votes import Vote\n"
    file.write_text(method.replace("from engines.kit", f"{own}from engines.kit"), "utf-8")
    (tmp_path / "vote.js").write_text(own_record.VIEW, "utf-8")
    engines.load_method_file(file)
    assert set(own_files()) == {"hops"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (own_record.VIEW.replace('["hops"]', '["tree"]'), "declares no view of the record 'hops'"),
        ("export const view = { name: Hops };\n", r"hops\.js declares its view in a form that cannot be read"),
        (own_record.VIEW.replace("export class", "class"), r"hops\.js' exports no class Hops, which its view names"),
        (own_record.VIEW + "// </script>\n", "holds text that would end a script in a page"),
    ],
)
def test_a_view_that_cannot_be_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    engines.load_method_file(own_record.written(tmp_path, text))
    with pytest.raises(engines.UserError, match=said):
        export_html(decoded())
