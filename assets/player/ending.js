// What a rule for the end saved of the control's calls, by the rules of `saved_at_end` in explorer/figures/compare.py.
// No DOM.

const fills = (run) => run.steps.some(({ commits }) => commits?.causes.includes("fill"));

/** {after, calls}: the calls of the control's main model, and those of them that wrote only what stands after its first
 * end mark, where everything up to it was written. Null unless the run filled the rest of its board by a rule for the
 * end and the control has none: only then is the difference the rule's, not the method's. */
export function savedAtEnd(run, control) {
  const { steps, eos, prompt, header } = control,
    at = control.end.output_ids.findIndex((token) => eos.has(token)),
    moved = steps.some(({ commits }) => commits?.removed?.length || commits?.inserted?.length);
  if (!fills(run) || fills(control) || at < 0 || moved) return null;
  if (["commits", "forwards"].some((group) => control.missing.has(group))) return null;
  const role = header.models?.[0]?.role,
    open = new Set(Array.from({ length: at + 1 }, (_, i) => prompt.length + i)),
    found = { after: 0, calls: 0 };
  for (const { commits, forwards } of steps) {
    const calls = forwards?.[role] ?? 0;
    found.calls += calls;
    if (commits && !open.size) found.after += calls;
    for (const position of commits?.positions ?? []) open.delete(position);
  }
  return found.after ? found : null;
}
