"""What was measured, as tables: of the JSON that `bench`, `sweep`, `parallelbench` and `study` write, of the cards
beside weights, and of the records in `assets/measured`, which hold what was measured otherwise.

Every table names its command, machine and date; rows made of cards name their own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

import engines
from engines import ASSETS, parallelbench
from explorer.bench import certified, classes, gguf, grid, length, names, quality, shipped
from explorer.papers import cards
from explorer.papers.tables import Cell, Measured, of_lines

RECORDS = ASSETS / "measured"
FIRST = ("method", "median class", "95 %", "tokens/forward", "same text", "verdict")  # then each class of prompts
COUNTED = "counted, on any machine"
MERGED = "2026-11-28"  # from then on layers of Llama's family run in few calls
OLDER = (
    "Measured before the layers ran in few calls: a forward of one row, which is greedy's, has gained more since than "
    "one of several."
)


def tables() -> dict[str, list[Measured]]:
    """Subject -> its tables: those made of other records, then those that are recorded as they are."""
    by_title = {}
    for name, (title, make) in SUBJECTS.items():
        file = RECORDS / f"{name}.json"
        kept = msgspec.json.decode(file.read_bytes(), type=list[Measured]) if file.is_file() else []
        by_title[title] = [*make(), *kept]
    return by_title


def of_record(
    record: Any, title: str, *, machine: str, lines: Iterable[dict[str, Any]], sample: str, notes: Sequence[str] = ()
) -> Measured:
    """Lines of a record that says what was typed, and when."""
    return Measured(title, record.command, machine, record.date, **of_lines(lines), sample=sample, notes=[*notes])


def _bench() -> Iterator[Measured]:
    plain, invariant = classes.recorded(), classes.recorded(classes.ROW_INVARIANT)
    for bench in (*sorted(plain, key=lambda bench: bench.max_new_tokens), *invariant):
        main = bench.models[0]
        if main.slower is None:
            how, texts = "", f"In {main.dtype} rounding decides between near-ties; in float32 all texts are greedy's."
        else:
            how = " with row-invariant forwards"
            texts = (
                "Speeds are over greedy on the plain network. The texts are compared with greedy's with row-invariant "
                f"forwards, and that one's (the row `{bench.control}`, which shows what these cost) with plain "
                "greedy's."
            )
        costs = ", ".join(f"{1000 * s:.1f} ms for {n} row{'s' * (n > 1)}" for n, s in bench.row_seconds.items())
        title = f"{bench.max_new_tokens} new tokens on {main.name}{how}"
        lines = ({key: line[key] for key in (*FIRST, *line)} for line in classes.rows(bench))
        sample = "tokens per second over greedy's in the same process, the prompt's forward included"
        notes = [classes.LEGEND, texts, f"A forward took {costs}.", *([OLDER] if bench.date < MERGED else [])]
        machine = f"{bench.machine}, {main.dtype}"
        yield of_record(bench, title, machine=machine, lines=lines, sample=sample, notes=notes)


def _certified() -> Iterator[Measured]:
    for record in shipped(certified.Certified, certified.FOLDER):
        lines = [
            {
                "method": row.method,
                "parameters": ", ".join(f"{key}={value}" for key, value in row.params.items()) or "default",
                "compared with": "its control" if row in record.kept else "the network without a cache",
                "same text": f"{row.same} of {row.prompts}",
                "tokens compared": row.tokens,
                "differs from token": ", ".join(str(at + 1) for at in row.first) or None,
            }
            for row in (*record.kept, *record.network)
        ]
        title = f"Lossless methods on {record.model.name}, token by token"
        machine = f"{record.machine}, {record.model.dtype}"
        yield of_record(record, title, machine=machine, lines=lines, sample="bundled prompts, temperature 0")


def _sweeps() -> Iterator[Measured]:
    for sweep in quality.recorded():
        apart = grid.apart(sweep.points)
        title = f"Quality against forwards on {sweep.model.name}{f', by {apart}' if apart else ''}"
        sample = f"{sweep.points[0].tried} held-out prompts of {len(sweep.tasks)} tasks, answers checked exactly"
        notes = [quality.LEGEND.replace("\n", " "), "*Sweeps* has the figure."]
        lines = quality.rows(sweep.points)
        yield of_record(sweep, title, machine=COUNTED, lines=lines, sample=sample, notes=notes)


def parallel_points(part: parallelbench.Part) -> list[parallelbench.Point]:
    """Of the whole board in random order, drawn at temperature 1."""
    drawn = [point for point in part.points if point.setting.sampled and point.setting.per_forward]
    return [x for x in drawn if x.setting.order == parallelbench.VALUE_FREE and x.setting.blocks == 1]


def _parallel() -> Iterator[Measured]:
    for part in parallelbench.recorded(quality.PARALLELBENCH):
        lines = [
            {
                "task": point.task,
                "tokens per forward": round(point.tokens_per_forward, 2),
                "right, % (95 %)": [round(100 * x, 1) for x in (point.share, *point.interval)],
                "derived, %": None if point.chance is None else round(100 * point.chance, 1),
            }
            for point in parallel_points(part)
        ]
        if lines:
            title = f"ParallelBench: several tokens at once on {part.model.name}"
            sample = f"{part.prompts} prompts of each task, positions in random order"
            note = (
                "Derived: from the sets that the runs wrote at once. On the oracle, which has the true marginals, what "
                "is lost is lost by drawing tokens of one forward independently; no training restores it."
            )
            yield of_record(part, title, machine=COUNTED, lines=lines, sample=sample, notes=[note])


def _names() -> Iterator[Measured]:
    for record in shipped(names.Names, names.FOLDER):
        title = "Names that exist at a dot (Monitor-Guided Decoding)"
        machine = f"{record.machine}, Python {record.python}"
        notes = [
            "The 100 % follows from the rule: the analyser that restricts is the one that marks. The author's own "
            "name does not follow from it.",
            f"The analyser was asked about {record.asked} places; at {record.wrong} it knew names and the author's "
            "was none of them. Names longer than 12 tokens are cut off and count as not existing.",
        ]
        sample = "files of the standard library cut at a dot"
        yield of_record(record, title, machine=machine, lines=names.rows(record), sample=sample, notes=notes)


def _lengths() -> Iterator[Measured]:
    for record in shipped(length.Lengths, length.FOLDER):
        title = f"What a token costs as an answer grows, on {record.model.name}"
        sample = f"{record.prompt_tokens} tokens of prompt and {record.new_tokens:,} new ones, end marks ignored"
        notes = [
            length.LEGEND.replace("\n", " "),
            f"Medians over turns of {record.chunk} tokens, in which all loops take turns; each stretch begins where "
            "the one before ends. The prompt's own forward is left out. A long answer without an end goes round in "
            "circles, which drafting by copying profits from.",
        ]
        machine = f"{record.machine}, {record.model.dtype}"
        yield of_record(record, title, machine=machine, lines=length.rows(record), sample=sample, notes=notes)


def _gguf() -> Iterator[Measured]:
    for record in shipped(gguf.Speeds, gguf.FOLDER):
        machine = f"{record.machine}, {record.threads} thread{'s' * (record.threads > 1)}"
        where: dict[str, Any] = {"command": record.command, "machine": machine, "date": record.date}
        sample = f"`{record.file}`, {record.prompt_tokens} tokens of prompt and {record.new_tokens} new ones"
        notes = [
            f"Medians of {record.rounds} rounds in which all loops take turns; both run {record.build}, so that the "
            "programs alone are compared.",
            "The last column counts tokens up to the first other one. Where a file's rows keep their bits, our cache "
            "keeps values in bfloat16, the server's in float16, and near-ties fall differently.",
            f"{record.again} measurements were disturbed by others and made again, {record.left} stayed disturbed.",
        ]
        heads = [
            "loop",
            "prompt, s",
            "tokens per second after it",
            "whole request, s",
            "processor, s",
            "tokens as greedy's",
        ]
        rows = [list(msgspec.structs.astuple(loop)) for loop in record.loops]
        title = "Greedy on a GGUF file beside llama.cpp's own server"
        yield Measured(title, **where, columns=heads, rows=rows, sample=sample, notes=notes)
        heads = ["ratio", "after the first token", "whole request", "processor seconds", "goal"]
        rows = [list(msgspec.structs.astuple(ratio)) for ratio in record.ratios]
        title = "The same as ratios of a round, median (quarters)"
        yield Measured(title, **where, columns=heads, rows=rows, sample=sample)
        costs = [
            {"weights": row.code, "MB": round(row.bytes / 1e6)}
            | {"a row's logits beside others": f"move by up to {row.moved:.2g}" if row.moved else "the same bits"}
            | {f"{n} row{'s' * (n > 1)}": "{:.1f} ({:.1f})".format(*(1000 * s for s in each))
               for n, each in row.seconds.items()}
            for row in record.rows
        ]  # fmt: skip
        title = f"Milliseconds of a forward (processor) by rows and code of the weights, behind {record.past} positions"
        made = ", ".join(row.code for row in record.rows if row.made)
        notes = [
            f"Logits: 1 to 32 rows at once and a small tree behind 20, 200 and 700 positions ({record.build}).",
            f"{made} were made from the file by llama.cpp's quantiser: they tell speed and bits, not quality.",
        ]
        if costs:
            yield Measured(title, **where, **of_lines(costs), sample=f"`{record.file}`", notes=notes)


def _studies() -> Iterator[Measured]:
    for file in sorted((ASSETS / "studies").glob("*.json")):
        study = engines.Study.from_json(file.read_bytes())
        command, made_by = _origin(study)
        for table in study.tables:
            title = f"{study.title}: {table.title[:1].lower()}{table.title[1:]}"
            figures = f"The figures: `decoding-explorer study --open assets/studies/{file.name}`."
            yield Measured(
                title=title,
                command=command,
                machine=study.machine,
                date=study.made_at[:10],
                columns=[column.head for column in table.columns],
                rows=[[_number(cell) for cell in row] for row in table.rows],
                notes=[*(note for note in (table.note, *study.notes) if note), figures],
                made_by=made_by,
            )


def _origin(study: engines.Study) -> tuple[str, str]:
    """The command that makes a study's record again; or what made it, where the study is no more."""
    given = {key: f'"{value}"' if " " in str(value) else str(value) for key, value in study.inputs.items()}
    if study.study in {info.slug for info in engines.list_studies()}:
        return f"decoding-explorer study {study.study} {' '.join(f'--set {k}={v}' for k, v in given.items())}", ""
    inputs = ", ".join(f"{key}={value}" for key, value in given.items() if value)
    return "", f"a study that is no longer part of the program ({study.study}: {inputs})"


def _number(value: Any) -> Cell:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return ("no", "yes")[value] if isinstance(value, bool) else value


SUBJECTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "speculation": ("Drafting and verifying", lambda: chain(_bench(), _certified())),
    "heads": ("Trained drafters", cards.calls),
    "diffusion": ("Masked diffusion", lambda: chain(_sweeps(), _parallel())),
    "sampling": ("Sampling, search and reasoning", _names),
    "architectures": ("Experts, attention and memory", cards.domains),
    "pictures": ("Pictures and words", lambda: chain(cards.reader(), cards.vision())),
    "length": ("Long answers", _lengths),
    "gguf": ("GGUF files", _gguf),
    "studies": ("Studies", _studies),
    "program": ("The program itself", tuple),
    "training": ("Training", tuple),
    "hosting": ("Hosting", tuple),
}
