"""Whether the seconds of two single runs can tell which was faster. A busy machine stops a run for as long as it likes:
one token of 2 seconds among tokens of 70 ms has made thirtyfold speed-ups."""

from statistics import median

from engines import Trace
from explorer.figures.calls import layer_rows, target_calls, target_role
from explorer.figures.samples import gained

JUMP = 10  # times the usual seconds of a step
SHARE = 0.2  # of a run's seconds, that such steps may take beyond the usual
LEAST = 4  # steps behind the first one, which reads the prompt: fewer make nothing usual
ROOM = 1.5  # times what calls and work explain, and times the seconds in which the calls' threads ran


def stalled(trace: Trace) -> float:
    """The share of the model's seconds behind the first step that single steps took beyond the usual, 0 where none
    stands out: of those that took more than JUMP times the median per call, and per layer-row where work is known."""
    steps = [(s.model_seconds, max(1, sum(s.forwards.values())), layer_rows(s)) for s in trace.steps[1:]]
    if len(steps) < LEAST:
        return 0.0
    each = median(seconds / calls for seconds, calls, _ in steps)
    row = 0.0 if _lost(trace, "work") else median(seconds / max(1, work) for seconds, _, work in steps)
    beyond = 0.0
    for seconds, calls, work in steps:
        usual = max(each * calls, row * work)
        beyond += seconds - usual if seconds > JUMP * usual else 0.0
    return beyond / sum(seconds for seconds, _, _ in steps) if beyond else 0.0


def displaced(trace: Trace) -> bool:
    """Whether the calls took more than ROOM times the seconds in which their threads ran: others had the processor.
    Unknown, and so False, where the seconds of the threads were not recorded, or an accelerator computed."""
    called, ran = trace.end.called_seconds, trace.end.processor_seconds
    return ran > 0 and all(model.device == "cpu" for model in trace.header.models) and called > ROOM * ran


def explained(trace: Trace, control: Trace) -> float | None:
    """How many times the control's tokens per second of model time a run could have at most, were each call of the
    target, each call of any model, or each layer-row as dear in both. None where nothing of it was recorded."""
    tokens, others = gained(trace), gained(control)
    if not tokens or not others:
        return None
    costs = zip(_costs(trace), _costs(control), strict=True)
    return max(((tokens / ours) / (others / plain) for ours, plain in costs if ours and plain), default=None)


def _costs(trace: Trace) -> tuple[int, int, int]:
    target = target_role(trace)
    calls = 0 if _lost(trace, "forwards") else sum(target_calls(step, target) for step in trace.steps)
    every = 0 if _lost(trace, "forwards") else sum(trace.totals.forwards_by_role.values())
    return calls, every, 0 if _lost(trace, "work") else sum(trace.totals.work_by_role.values())


def _lost(trace: Trace, field: str) -> bool:
    return field in trace.header.missing


def too_busy(trace: Trace, control: Trace, *, same_model: bool = True) -> bool:
    """Whether a ratio of the seconds of one run each would say more of the machine than of the methods: single steps of
    one of them were stalled, others had the processor, or the ratio of model time is more than ROOM times what calls
    and work explain."""
    if max(stalled(trace), stalled(control)) > SHARE or displaced(trace) or displaced(control):
        return True
    most = explained(trace, control) if same_model else None
    seconds, plain, others = trace.totals.model_seconds, control.totals.model_seconds, gained(control)
    if most is None or not seconds or not others:
        return False
    return gained(trace) * plain > ROOM * most * others * seconds
