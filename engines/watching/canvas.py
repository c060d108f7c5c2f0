"""Reading a loop over canvases: what was encoded, what the decoder read and said, and what was put on the canvas next.

Shapes: L positions of a canvas, V vocabulary."""

from collections.abc import Sequence
from typing import Any

from engines.core.lazy import Tensor, torch
from engines.watching.arguments import Unreadable
from engines.watching.denoised import INFO, Bound, Denoised, Seen, accept_last, finish, settle, spans, temperature
from engines.watching.draws import Draws, Drew
from engines.watching.facts import Describer, broken, said_broken
from engines.watching.hooks import Call
from engines.watching.iteration import NO_OUTPUT, Reading, Turn, Written

ROUNDED = 2e-3  # by which a temperature may be off that is read from logits in bfloat16
ANOTHER = "another prompt began; use one `with` for each answer."


class CanvasReader:
    """The calls of one canvas model."""

    def __init__(self, full: bool, eos_ids: Sequence[int], size: int, generator: Any) -> None:
        self.full, self.eos_ids, self.size = full, list(eos_ids), size
        self.draws, self.bound, self.turns = Draws(generator), Bound(), list[Turn]()
        self.text, self.prompt = list[int](), 0  # what is encoded
        self.number, self.step = -1, 0
        self.remarks = list[str]()
        self._open: Denoised | None = None
        self._was = torch.zeros(0, dtype=torch.bool)
        self._fresh = True  # whether the next canvas is a new one
        self._conditioned = self._again = False
        self._encoding: list[Call] = []  # of the encoder, that no turn holds yet
        self._state: Tensor | None = None  # of the generator, when the encoder was done
        self._end: Tensor | None = None  # and when the canvas, or the loop, had ended
        self._temperatures: dict[int, float] = {}  # by step
        self._closed: list[tuple[Denoised, Seen]] = []  # last steps of which only the likeliest tokens were kept
        self._describe, self._device = Describer(), torch.device("cpu")

    def encoding(self, call: Call) -> None:
        """Before the encoder reads: the end of the canvas before."""
        assert call.ids is not None
        self._device, new, past = call.facts["device"], call.ids[0].tolist(), call.past or 0
        known = self.text[past : past + len(new)]
        self._again = bool(known) and known == new
        if self._again:
            return
        if past > len(self.text):
            raise Unreadable(
                f"the cache already held {past} positions when watching began; begin the `with` before the prompt is "
                "read."
            )
        if known != new[: len(known)]:
            raise Unreadable(ANOTHER)
        added = new[len(self.text) - past :]
        if self._open is not None:
            if len(added) != len(self._open.before):
                raise Unreadable(
                    f"{len(added)} tokens were encoded behind a canvas of {len(self._open.before)}, so what became of "
                    "it cannot be seen."
                )
            self._end = self.draws.state(self._device)
            self._finish(self._open, torch.tensor(added))
            self._open = None
        elif self.number < 0:
            self.prompt = len(self.text) + len(added)
        self.text, self._fresh = self.text + added, True

    def encoded(self, call: Call) -> None:
        """After it: where the draws of a new canvas begin."""
        self._encoding.append(call)
        self._state = self.draws.state(self._device)

    def before(self, call: Call, cache: Any) -> None:
        """The canvas that the decoder reads, and with it what the step before left."""
        assert call.ids is not None
        if not self.text:
            raise Unreadable("the decoder was called before the prompt was read; begin the `with` before that.")
        canvas, handed = call.ids[0], call.given.get("self_conditioning_logits")
        if self._fresh:
            self._begin(canvas)
        elif self._open is not None and self._open.z is not None:
            if handed is None and self._conditioned and self._again:
                raise Unreadable(f"the same prompt began once more: {ANOTHER}")
            end = self.draws.state(self._device)
            seen = self._look(self._open, None if handed is None else handed[0], end)
            self._was = settle(self._open, canvas, seen, self.bound)
        self._conditioned, self._again = handed is not None, False
        self.step += 1
        start = len(self.text)
        iteration = Turn([*self._encoding, call], start, start + len(canvas), spans=spans(start, len(canvas)))
        self._encoding = []
        self.turns.append(iteration)
        self._open = Denoised(iteration, self.number, self.step, start, canvas, self._was)

    def after(self, call: Call, logits: Tensor, cache: Any) -> None:
        """What the decoder says [L, V]."""
        if broken(logits):
            raise Unreadable(f"{said_broken(None, logits)[0]} What became of this canvas cannot be told.")
        if self._open is not None:
            self._open.z, self._open.state = logits, self.draws.state(self._device)

    def close(self) -> None:
        """The loop has ended."""
        self._end = self.draws.state(self._device)

    def _begin(self, canvas: Tensor) -> None:
        """A new canvas: a step of its own, with what was encoded for it."""
        self.number, self.step, self._fresh = self.number + 1, 0, False
        self._was, start = torch.zeros(len(canvas), dtype=torch.bool), len(self.text)
        now = self.draws.state(self._device)
        drawn = self.draws.fresh(self._state, now, self.size, len(canvas), self._device)
        noise, tokens = drawn is not None and torch.equal(drawn.cpu(), canvas), canvas.tolist()
        iteration = Turn(self._encoding, start, start + len(canvas), spans=spans(start, len(canvas)))
        n = sum(call.n for call in self._encoding)
        self._encoding = []
        iteration.commits = [
            Written(start + i, token, "noise" if noise else "constraint") for i, token in enumerate(tokens)
        ]
        iteration.records = {
            "canvas": {"kind": "drawn", "number": self.number, "step": 0, "start": start, "before": tokens}
            | {"after": tokens}
            | ({"noise": tokens} if noise else {})
        }
        iteration.recorded_facts = {"kv_len": float(start)}
        iteration.notes = [
            f"{n} tokens are encoded; after them stand {len(tokens)} "
            f"{'tokens drawn at random' if noise else 'tokens that the loop put there'}."
        ]
        self.turns.append(iteration)

    def _look(self, denoised: Denoised, handed: Tensor | None, end: Tensor | None) -> Seen:
        """What is known of a forward. handed [L, V]: the logits with which the loop conditioned the next one."""
        assert denoised.z is not None
        t = self._at(denoised.step)
        if handed is not None:
            t = temperature(denoised.z[0], handed[0])
            if t is not None:
                self._temperatures[denoised.step] = t
        whole = handed is not None and handed.dtype == torch.float32 and t is not None
        z = handed if whole and handed is not None else denoised.z / t if t is not None else None
        drew = self.draws.again(denoised.state, end, denoised.z if z is None else z)
        tokens, noise = (None if drawn is None else drawn.cpu() for drawn in (drew.tokens, drew.noise))
        drew = Drew(None if z is None else tokens, noise, drew.routes)
        facts = self._describe(z, range(len(z))) if self.full and z is not None else None
        return Seen(drew, denoised.z.argmax(-1).cpu(), t, facts)

    def _at(self, step: int) -> float | None:
        """The temperature of a step: as another canvas had it there, or on the line through those that were seen."""
        known = sorted(self._temperatures)
        if step in known or len(known) < 2:
            return self._temperatures.get(step)
        a, b = known[0], known[-1]
        t, slope = self._temperatures[a], (self._temperatures[b] - self._temperatures[a]) / (b - a)
        straight = all(abs(t + slope * (k - a) - self._temperatures[k]) < ROUNDED for k in known)
        estimate = t + slope * (step - a)
        return estimate if straight and estimate > 0 else None

    def _finish(self, denoised: Denoised, final: Tensor) -> None:
        """Close the last step of a canvas."""
        if denoised.z is None:
            return
        seen = self._look(denoised, None, self._end)
        if finish(denoised, final, seen, self.bound, self.eos_ids):
            self._closed.append((denoised, seen))

    def readings(self, outputs: list[list[int]] | None) -> list[Reading]:
        """What is known of the answer. outputs: the loop's own."""
        last, closed, remarks = self._open, list(self._closed), list(self.remarks)
        turns, board, complete = list(self.turns), list(self.text), False
        if turns and last is not None and not last.iteration.calls[-1].ended:  # one that failed
            turns, last = turns[:-1], None
        bound = Bound(**vars(self.bound))
        if last is not None:
            final = self._final(outputs[0] if outputs else None, len(last.before), remarks)
            board += last.before.tolist() if final is None else final
            if final is not None and last.z is not None:
                shown = Denoised(**vars(last) | {"iteration": Turn(**vars(last.iteration))})
                self._finish(shown, torch.tensor(final))
                turns[-1], complete = shown.iteration, True
        elif outputs and turns:
            complete = outputs[0] in (board, board[self.prompt :])
        for denoised, seen in self._closed:
            accept_last(denoised, seen, self.bound)
        remarks += self._said(turns)
        self._closed, self.bound = closed, bound  # trace() may be asked again
        return [Reading(turns, board, self.prompt, remarks=remarks, complete=complete, records={"canvas": INFO})]

    def _final(self, output: list[int] | None, length: int, remarks: list[str]) -> list[int] | None:
        """The open canvas as the loop's own output has it, with or without the prompt."""
        if output is None:
            remarks.append(NO_OUTPUT)
            return None
        known = self.text[self.prompt :]
        for text in (output[self.prompt :] if output[: self.prompt] == self.text[: self.prompt] else [], output):
            if text[: len(known)] == known and len(text) == len(known) + length:
                return text[len(known) :]
        remarks.append(
            f"The output of {len(output)} tokens does not fit a text of {len(self.text)} with a canvas of {length} "
            "behind it, so what the last step wrote is not known."
        )
        return None

    def _said(self, turns: list[Turn]) -> list[str]:
        """What a reader must know of the whole."""
        sentences = [
            "Scores, entropies and probabilities are those of the logits that the loop handed back to the model, with "
            "their temperature; of a canvas's last step with the temperature that the other steps lead to."
        ]
        records = [iteration.records["canvas"] for iteration in turns if "canvas" in iteration.records]
        if any("noise" in record and record["kind"] == "denoise" for record in records):
            sentences.append(
                "What was drawn was repeated from the state of the loop's generator and led to its next state; a "
                "position that holds the noise drawn there counts as noise, every other one as the model's."
            )
        if any("noise" not in record for record in records):
            sentences.append(
                "Some of what was drawn could not be repeated (a generator of the loop's own: say generator=), so what "
                "was accepted there is not known."
            )
        if self.bound.seen:
            low, high = self.bound.low, self.bound.high
            sentences.append(
                f"The accepted tokens keep to a bound on their entropies of {low:.4g} or more"
                f"{f' and less than {high:.4g}' if high < float('inf') else ''}."
            )
        return sentences
