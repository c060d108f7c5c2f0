"""LLaDA: the text log of its visualisation, one line per sampling step with the whole board as text.

Written from the reader in ML-GSAI/LLaDA visualization/ (visualization_zhihu.py, 2025) and from scripts that write the
same log: a line is `STEP, *TOKEN&*TOKEN&...` with the text of every generated position, `<|mdm_mask|>` where it is
still masked; line ends inside a token and end marks are written as blanks. So ids, end marks, prompt, confidence and
times are not in it. A token that holds `&*` cannot be told from two."""

import re
from itertools import pairwise
from typing import Any

from engines import Trace, TraceError, texts
from explorer.importers.build import MAX_CELLS, Table, step, trace
from explorer.importers.diffusers_frames import board_changes

TITLE = "LLaDA, text log of its boards"
SOURCE = "LLaDA's text log"
MASK = "<|mdm_mask|>"
_LINE = re.compile(r"\s*(\d{1,7}),\s*\*(.*)&\s*")


def looks(text: Any) -> bool:
    """Whether the first line that is not empty has the form of the log."""
    first = next((line for line in texts.lines(text) if line.strip()), "") if isinstance(text, str) else ""
    return _LINE.fullmatch(first) is not None


def read(text: str) -> Trace:
    """The trace of a log. Raises TraceError that names the line."""
    table = Table()
    boards: list[list[int]] = []
    numbers: list[int] = []
    mask = table.text(MASK, special=True)
    for number, line in enumerate(texts.lines(text), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise TraceError(f"line {number} of the log is not of the form 'STEP, *TOKEN&*TOKEN&...'.")
        board = [table.text(token) for token in match[2].split("&*")]
        if boards and len(board) != len(boards[0]):
            raise TraceError(
                f"line {number} of the log has {len(board)} positions, the lines before it have {len(boards[0])}."
            )
        boards.append(board)
        numbers.append(int(match[1]))
        if len(boards) * len(board) > MAX_CELLS:
            raise TraceError(f"the log has more than {MAX_CELLS:,} cells.")
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise TraceError(
            "the steps of the log do not rise: it holds several runs one after the other; keep one of them."
        )
    steps, before = [], [mask] * len(boards[0])
    for index, board in enumerate(boards):
        steps.append(step(index, note=f"Sampling step {numbers[index]}.", **board_changes(before, board, mask)))
        before = board
    return trace(
        source=SOURCE,
        title="Masked diffusion, from a text log",
        steps=steps,
        table=table,
        output_ids=before,
        text="".join(table.pieces[token]["text"] for token in before if token != mask).strip(),
        missing=["token_ids", "end_marks", "tokens", "params"],
        about="only the boards were logged",
        mask_id=mask,
        canvas=len(before),
    )
