// Will it help on my text: a verdict for each method, with its interval on a logarithmic axis around 1x. All that is
// said comes from the server, which measured it.

import { el, svg } from "../player/dom.js";
import { tr } from "../player/words.js";
import { announce } from "./dom.js";
import { sentence } from "./sentences.js";

const MARKS = { helps: "▲", hurts: "▼", even: "=", other: "≠", busy: "…", few: "…" };
const TICKS = [0.25, 0.5, 1, 2, 4, 8];
const WIDTH = 240;
const times = (value) => `${value.toFixed(2)}×`;

/** props.value: JSON of {sentence, on, runs, chosen, conditions, methods: [{label, word, verdict, speed, low, high,
 * level, values, unit, left_out, text, why, takes}]}; on, chosen may be "". Nothing is shown before there is one. */
export function mountAdvice(element, props, watch) {
  const draw = () => show(element, props.value ? JSON.parse(props.value) : null);
  watch("value", draw);
  draw();
}

/** runs: {prompt, model, options, control, params by method} of what was measured; while its verdict is there no other
 * figure stands for it. */
function show(element, found) {
  globalThis.dxMeasured = found?.runs ?? null;
  element.replaceChildren(...(found ? [panel(found, () => show(element, null))] : []));
  announce("dx-seen");
}

function panel({ sentence: said, on, chosen, conditions, methods }, hide) {
  const head = el("h2", {}, sentence(said)),
    close = el("button", { class: "advice-close", onclick: hide }, tr`Hide`),
    range = span(methods);
  return el(
    "section",
    { class: "advice", "aria-label": tr`Will it help on my text?` },
    el("div", "advice-head", head, close),
    ...(on ? [el("p", "advice-on", sentence(on))] : []),
    el("ul", {}, ...methods.map((method) => line(method, range))),
    el("p", "advice-conditions", [chosen, conditions].filter(Boolean).map(sentence).join(" ")),
  );
}

function line(method, range) {
  const { label, word, verdict, text, why, takes } = method;
  return el(
    "li",
    { "data-word": word },
    el("strong", "advice-name", label),
    el("span", "advice-verdict", el("i", { "aria-hidden": "true" }, MARKS[word]), " ", sentence(verdict)),
    interval(method, range),
    el("p", {}, [text, why, takes].filter(Boolean).map(sentence).join(" ")),
    el("p", "advice-of", counted(method)),
  );
}

function counted({ values, unit, left_out: out, low, level }) {
  const of = unit === "prompt" ? tr`${values} prompts` : tr`${values} repeats`,
    whole =
      low === null
        ? tr`measured in ${of}`
        : tr`${Number((100 * level).toPrecision(3))} % interval of the median of ${of}`;
  if (!out) return whole;
  return out === 1
    ? tr`${whole}; 1 disturbed pair of runs was left out`
    : tr`${whole}; ${out} disturbed pairs of runs were left out`;
}

/** Both ends of the axis: 1 is inside, and so is every interval. */
function span(methods) {
  const ends = methods.flatMap(({ low, high }) => (low === null ? [] : [low, high]));
  return [Math.min(0.5, ...ends) * 0.9, Math.max(2, ...ends) * 1.1];
}

function interval({ low, high, speed, word }, [from, to]) {
  if (low === null || word === "other" || word === "busy") return null;
  const x = (value) => 8 + ((WIDTH - 16) * Math.log(value / from)) / Math.log(to / from),
    size = { viewBox: `0 0 ${WIDTH} 34`, width: WIDTH, height: 34 };
  return svg(
    "svg",
    { ...size, role: "img", "aria-label": tr`${times(low)} to ${times(high)}` },
    ...TICKS.filter((value) => value >= from && value <= to).flatMap((tick) => [
      svg("line", { x1: x(tick), x2: x(tick), y1: 3, y2: 20, class: tick === 1 ? "one" : "tick" }),
      svg("text", { x: x(tick), y: 31, "text-anchor": "middle" }, `${tick}×`),
    ]),
    svg("rect", { x: x(low), y: 8, width: Math.max(2, x(high) - x(low)), height: 8, rx: 2, class: "span" }),
    svg("line", { x1: x(speed), x2: x(speed), y1: 5, y2: 19, class: "middle" }),
  );
}
