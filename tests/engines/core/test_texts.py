"""Files of any encoding that a person's program may write, and where their lines end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.core.texts import decoded, lines, utf8

FORMS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
MARKS = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def is_read(text, form):
    assert decoded(MARKS.get(form, b"") + text.encode(form)) == text
    assert utf8(MARKS.get(form, b"") + text.encode(form)) == text.encode()


def ends(text):
    """The lines by the rule itself: a CR LF, CR or LF ends one, whichever is the longest."""
    found, at = [""], 0
    while at < len(text):
        if text[at] in "\r\n":
            at += text[at : at + 2] == "\r\n"
            found.append("")
        else:
            found[-1] += text[at]
        at += 1
    return found


@given(TEXT.filter(lambda text: not text.startswith("\ufeff")), st.sampled_from(FORMS))
def test_a_text_is_read_in_whichever_encoding_it_was_written(text, form):
    is_read("{" + text, form)


@pytest.mark.exhaustive
@settings(max_examples=5000)
@given(TEXT.filter(lambda text: not text.startswith("\ufeff")), st.sampled_from(FORMS))
def test_many_texts_are_read_in_whichever_encoding_they_were_written(text, form):
    is_read("{" + text, form)


@pytest.mark.parametrize("form", ["utf-16-le", "utf-16-be"])
def test_without_a_mark_the_zero_bytes_of_ascii_tell(form):
    for text in ('{"a": "é 散"}', "1, *a&", "ab"):
        assert decoded(text.encode(form)) == text
    assert decoded(b"a\0b") == "a\0b" and utf8(b"\xff") == b"\xff"  # neither
    with pytest.raises(UnicodeDecodeError, match="utf-16-le"):
        decoded(b"\xff\xfe\0")


@given(st.text(st.sampled_from("ab\r\n\v\f\x1c\x85\u2028\u2029")))
def test_only_cr_and_lf_end_a_line(text):
    assert lines(text) == ends(text)
