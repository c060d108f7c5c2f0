// Colours of the theme that text stands on. `node --test tests/player/`
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { asset } from "./assets.mjs";

const { OPTIONS, ramp } = await asset("player/theme.js");

const THEME = JSON.parse(readFileSync(new URL("../../assets/theme.json", import.meta.url), "utf8"));
const BLACK_OR_WHITE = { "#000": "#000000", "#fff": "#ffffff" };

/** Of two colours as WCAG 2 has it, from 1 to 21. */
function contrast(...colours) {
  const light = colours.map((colour) => {
    const parts = [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16) / 255),
      [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  });
  return (Math.max(...light) + 0.05) / (Math.min(...light) + 0.05);
}

for (const mode of ["light", "dark"]) {
  const surface = THEME.surface[mode];
  const reads = (text, fill, what) =>
    assert.ok(contrast(text, fill) >= 4.5, `${what}: ${text} on ${fill} has ${contrast(text, fill)}`);

  test(`all text can be read on what it stands on: ${mode}`, () => {
    for (const [name, look] of Object.entries(THEME.states)) reads(look[mode].text, look[mode].fill, `state ${name}`);
    for (const [i, { text, fill }] of THEME.options[mode].entries()) reads(text, fill, `option ${i}`);
    for (const ink of ["text", "muted"])
      for (const ground of ["page", "panel", "raised"]) reads(surface[ink], surface[ground], `${ink} on ${ground}`);
    reads(surface["on-accent"], surface.accent, "accent");
  });

  test(`text can be read on each level of the heat ramp: ${mode}`, () => {
    for (const { rgb, text } of ramp(THEME, mode))
      reads(BLACK_OR_WHITE[text], `#${rgb.map((c) => c.toString(16).padStart(2, "0")).join("")}`, "heat");
  });

  test(`brackets are told from the panel: ${mode}`, () => {
    for (const [kind, colour] of Object.entries(THEME.spans[mode]))
      assert.ok(contrast(colour, surface.panel) >= 3, `${kind}: ${contrast(colour, surface.panel)}`);
  });

  test(`there are as many colours side by side as the player takes: ${mode}`, () => {
    assert.equal(THEME.options[mode].length, OPTIONS);
  });
}
