"""The catalogues of the page's words: complete, with the places of their English, and read off the code rightly."""

import json
import re

import pytest

from explorer import ASSETS
from explorer.language import LANGUAGES, catalogue, faults, read
from explorer.own_files import own_json

TERMS = own_json("words/terms-zh-Hans.json")


def test_every_catalogue_is_complete_and_says_the_terms_of_the_field_and_the_page_offers_them_all():
    assert faults() == []
    assert len(read("en")) > 1000
    assert faults_of_terms(read("zh-Hans")) == []
    offered = re.search(r"LANGUAGES = (\{.*?\});", (ASSETS / "client/page/language.js").read_text("utf-8"))
    assert offered and re.findall(r'"?([\w-]+)"?: "', offered[1]) == list(LANGUAGES)


def test_no_file_of_the_page_or_the_player_is_left_out():
    top = ASSETS.parent
    read_of = {path for globs in (catalogue.SENTENCES, catalogue.SCRIPTS) for one in globs for path in top.glob(one)}
    parts = [path for part in ("player", "views", "page", "learn") for path in (ASSETS / "client" / part).glob("*.js")]
    files = {*(top / "explorer/page").rglob("*.py"), *parts}
    assert files - read_of == set()
    for area in ("core", "driver", "models", "methods", "studies", "tools"):
        assert any(pattern.startswith(f"engines/{area}/") for pattern in catalogue.ERRORS), f"the errors of {area}"


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_no_translation_is_the_english_sentence_again(language):
    """What is the same in both has no words of ours: names, formulas of numbers."""
    same = {text for text, said in read(language).items() if text == said} - {"id {0}{1}"}
    assert all(re.fullmatch(r"[^A-Za-z]*", re.sub(r"\{\w+\}", "", text)) for text in same), same


def faults_of_terms(known: dict[str, str]) -> list[str]:
    """Where the English names a term, and the Chinese has none of its forms."""
    return [
        f"{text} -> {said}: {term} is {forms}"
        for text, said in known.items()
        for term, forms in TERMS.items()
        if re.search(rf"(?<![\w=-]){re.escape(term)}s?(?![\w=-])", re.sub(r"`[^`]*`|\{\w+\}", "", text))
        and not any(form in said for form in forms)
    ]


def test_a_missing_translation_a_strange_place_and_a_leftover_are_faults(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "WORDS", tmp_path)
    monkeypatch.setattr(catalogue, "messages_of_code", lambda: {"Run": "a", "{0} of {tokens}": "b", "Stop": "c"})
    (tmp_path / "en.json").write_text(json.dumps({"Run": "a", "{0} of {tokens}": "b", "Stop": "c"}))
    (tmp_path / "zh-Hans.json").write_text(json.dumps({"Run": "运行", "{0} of {tokens}": "{1}", "Gone": "x"}))
    said = "\n".join(catalogue.faults())
    assert "lacks: Stop" in said and "one too many: Gone" in said and "other places: {0} of {tokens}" in said
    catalogue.write()
    assert "Gone" not in catalogue.read("zh-Hans")
