"""What the chooser says of methods: it is what they declare, and what was measured of them."""

import json
from typing import Any

import pytest

import engines
from explorer.bench import classes, quality
from explorer.page.chooser import entries, same
from explorer.papers import read
from explorer.runs.gallery import gallery
from tests.player.node import js

__all__ = ["js"]


@pytest.fixture(scope="module")
def infos() -> dict[str, engines.MethodInfo]:
    return {info.slug: info for info in engines.list_methods() if not info.file}


@pytest.fixture(scope="module")
def found(infos) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in entries(infos, gallery().cards)}


def test_every_method_and_every_study_has_an_entry(infos, found):
    studies = {paper.id for paper in read().papers if not paper.methods}
    assert set(found) == set(infos) | studies
    assert "<" not in json.dumps(found).replace("<=", "")
    for one in found.values():
        assert one["title"] and one["summary"] and one["words"], one["id"]
        assert one["lesson"] and one["play"], f"{one['id']} has a lesson and a recording"


def test_the_facts_of_the_four_questions_are_what_methods_declare(infos, found):
    for slug, info in infos.items():
        one = found[slug]
        assert (one["order"] == "masked") == (info.kind in ("masked", "block"))
        assert len(one["parts"]) == len(info.parts)
        assert len(one["beside"]) == len(info.needs) - 1 - len(info.beside | info.optional)
        assert one["same"] == same(info) == (2 if info.lossless else int(bool(info.lossless_with)))
        assert one["condition"] == info.condition
    trained = {slug for paper in read().all() for slug in paper.trains}
    assert trained == {slug for slug in infos if found[slug]["trains"]}
    assert not any(found[slug]["parts"] for slug in trained), "what names a part need not say it again"


def test_a_result_is_that_of_its_record(infos, found):
    records = {(record.max_new_tokens, score.label): record for record in classes.recorded() for score in record.scores}
    told = [(slug, one) for slug in infos for one in found[slug]["results"] if one["kind"] == "timed"]
    assert told
    for slug, one in told:
        label = f"{slug} ({one['given']})" if one["given"] else slug
        record = records[one["tokens"], label]
        assert one["speed"] == round(record.overall(label), 2)
        assert one["prompts"] == sum(score.prompts for score in record.scores if score.label == label)
    shares = {(p.method, round(100 * p.share, 1)) for record in quality.recorded() for p in record.points}
    swept = {(slug, one["share"]) for slug in infos for one in found[slug]["results"] if one["kind"] == "swept"}
    assert swept and swept <= shares


def test_ranks_put_what_was_measured_first_and_controls_last(infos, found):
    for order in ("left", "masked", ""):
        those = sorted((found[slug] for slug in infos if found[slug]["order"] == order), key=lambda one: one["rank"])
        assert len({one["rank"] for one in those}) == len(those)
        timed = [one["results"][0]["speed"] for one in those if one["results"] and one["results"][0]["kind"] == "timed"]
        assert timed == sorted(timed, reverse=True)
        plain = [one["isControl"] and not one["control"] for one in those]
        assert plain == sorted(plain)


WANTED = [
    *[("prompt lookup", "prompt-lookup"), ("EAGLE", "eagle"), ("2502.09992", "llada"), ("eagel", "eagle")],
    *[("Large Language Diffusion Models", "llada"), ("ngram", "prompt-lookup")],
    *((words, None) for words in ("block diffusion", "self-speculative", "multi-token", "early exit", "MoE")),
]


@pytest.mark.parametrize(("text", "first"), WANTED)
def test_words_of_the_field_find_methods(js, found, text, first):
    told = js("/page/finding.js", "M.find(list, text)", list=list(found.values()), text=text)
    assert told["found"]
    assert first is None or told["found"][0]["id"] == first
    assert (told["near"] is None) == (text != "eagel")


def test_each_method_and_paper_is_found_by_its_names(js, found):
    asked = {
        one["id"]: [one["title"], one["id"], *([one["paper"]["arxiv"]] if one["paper"] else [])]
        for one in found.values()
    }
    call = "Object.entries(asked).flatMap(([id, names]) => names.filter((name) => name && !M.find(list, name).found"
    call += ".slice(0, 6).some((one) => one.id === id)))"
    assert js("/page/finding.js", call, list=list(found.values()), asked=asked) == []
