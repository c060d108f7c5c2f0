"""The look back against answers known by hand, and against its definition written out in full."""

import engines
from engines import Edit, Trace
from explorer.figures.hindsight import CAVEAT, NOTHING, coverage, hindsight, summary
from explorer.figures.history import history
from explorer.figures.metrics import measure
from tests.explorer.figures.lookback import MASK, Turn, invented, looked, moving


def written(trace: Trace) -> dict[int, list[tuple[int, int]]]:
    """Position -> its writes (step, token) in order."""
    return {at: [(step, token) for step, token, _ in writes] for at, writes in history(trace).writes.items()}


def test_what_was_replaced_came_back_or_was_never_committed_is_counted():
    turns: list[Turn] = [
        ({}, [(2, 4), (3, 7)]),
        ({}, [(2, 5)]),
        ({}, [(2, 4), (3, 7)]),  # 4 comes back; the same token again is no change
        ({}, [(2, MASK)]),
        ({}, [(2, 5)]),  # a mask is no token that was replaced
    ]
    lens = hindsight(looked(turns, canvas=6))
    assert (lens.replaced, lens.restored, lens.never_committed) == (2, 1, 2)
    assert "2 replaced, 1 of them by a token that had stood there before" in coverage(lens)


def test_nothing_to_show_where_no_step_looked_ahead():
    causal = looked([({2: 4}, [(2, 4)]), ({3: 5}, [(3, 5)])], canvas=None)
    assert hindsight(causal).enough is None and summary(hindsight(causal)) == NOTHING
    of_it = {"commit_delay_mean", "commit_delay_max", "forwards_enough"}
    assert not of_it & {metric.name for metric in measure(causal)}
    silent = hindsight(looked([({}, [(2, 4)]), ({}, [(3, 4)])]))
    assert silent.enough is None and [one.known for one in silent.positions] == ["unknown", "unknown"]
    assert hindsight(looked([])).enough is None


def test_numbers_and_summary_say_what_they_rest_on():
    turns = [({2: 4, 3: 6, 4: 4}, []), ({2: 4, 3: 6, 4: 5}, [(2, 4), (4, 4)]), ({}, [(5, 4)]), ({3: 6}, [(3, 6)])]
    one = looked(turns, canvas=7)
    found = {metric.name: metric for metric in measure(one)}
    names = ("commit_delay_mean", "commit_delay_max", "forwards_enough")
    assert [found[name].value for name in names] == [0.5, 1, 1.0]
    about = found["forwards_enough"].conditions
    assert CAVEAT in about and "start known for 2 of 4" in about and found["forwards_enough"].kind == "derived"
    told = summary(hindsight(one))
    assert told.startswith("4 of 4 model calls") and CAVEAT in told
    for part in ("0.5 model calls later on average, 1 at most", "1 of them perhaps earlier", "1 not the top guess"):
        assert part in told
    assert "1 without candidates" in told and "1 never written" in told


def allowed(writes: list[tuple[int, int]], step: int, mask: int | None) -> bool:
    """Whether a guess of this step may count for the last of these writes."""
    if step == writes[-1][0] or len(writes) == 1:
        return step <= writes[-1][0]
    before, token = writes[-2]
    return step > before or (step == before and (token < 0 or token == mask))


def by_definition(trace: Trace) -> dict:
    """Every claim of the module's docstring, step by step and without any short cut."""
    mask, tops, past, last = trace.header.mask_id, [], history(trace), len(trace.steps)
    for step in trace.steps:
        group = step.candidates
        first = [int(row[0]) for row in group.tokens.array()] if group else []
        positions = group.positions if group else []
        tops.append({past.cell(p, step.index): token for p, token in zip(positions, first, strict=True)})
    roles = [model.role for model in trace.header.models[:1]]  # calls of a draft or a reference are beside these
    cost = [
        sum(step.forwards[role] for role in (roles or step.forwards) if role in step.forwards) for step in trace.steps
    ]
    since, commits, ahead = {}, {}, False
    for position, writes in written(trace).items():
        commit, token = writes[-1]
        if token < 0 or token == mask or past.place(position, last) is None:
            continue
        commits[position] = commit
        good = [allowed(writes, s, mask) and tops[s].get(position) == token for s in range(commit + 1)]
        since[position] = min((s for s in range(commit + 1) if all(good[s:])), default=None)
        ahead |= any(allowed(writes, s, mask) and position in tops[s] for s in range(commit))
    delays = {p: None if s is None else sum(cost[s + 1 : commits[p] + 1]) for p, s in since.items()}
    ends = sorted({sum(cost[: s + 1]) for s in range(len(cost))})
    done = [n for n in ends if all(n >= sum(cost[: (commits[p] if s is None else s) + 1]) for p, s in since.items())]
    found = ({past.place(p, last): value for p, value in each.items()} for each in (since, commits, delays))
    since, commits, delays = found
    return {"since": since, "committed": commits, "delays": delays, "enough": min(done) if ahead else None}


def as_claimed(trace: Trace) -> dict:
    lens = hindsight(trace)
    rows = {one.position: one for one in lens.positions}
    assert list(rows) == sorted(rows)
    return {
        "since": {p: one.since for p, one in rows.items()},
        "committed": {p: one.committed for p, one in rows.items()},
        "delays": {p: one.delay for p, one in rows.items()},
        "enough": lens.enough,
    }


def test_invented_runs_agree_with_the_definition():
    runs = [*map(invented, range(300)), *map(moving, range(1, 60, 2))]
    for number, trace in enumerate(runs):
        assert as_claimed(trace) == by_definition(trace), f"run {number}"
    every = [one for trace in runs for one in hindsight(trace).positions]
    assert {one.known for one in every} == {"since", "other", "unknown"}
    assert any(one.earlier for one in every) and any(one.delay for one in every)


def test_an_edit_and_less_detail_on_a_real_run():
    options = {"params": {"max_new_tokens": 16}, "seed": 0, "max_steps": 14}
    plain = engines.run("llada", "tiny-dlm", "sort: Mia, Leo, Ada", **options)
    place = plain.steps[0].commits.positions[0]
    edited = engines.run("llada", "tiny-dlm", "sort: Mia, Leo, Ada", edits=[(3, Edit(remask=[place]))], **options)
    assert as_claimed(edited) == by_definition(edited)
    assert hindsight(plain).never_committed == plain.totals.masks_left > 0
    assert hindsight(engines.run("llada", "tiny-dlm", "sort: Mia, Leo, Ada", detail="light", **options)).enough is None
