// theme.json as CSS variables and as colours for canvases. No colour stands anywhere else.

const LEVELS = 32;
export const OPTIONS = 7; // colours of the theme that stand side by side

const declare = (theme, mode) =>
  [
    `color-scheme:${mode};--dx-mode:${mode}`,
    ...Object.entries(theme.surface[mode]).map(([name, value]) => `--${name}:${value}`),
    ...Object.entries(theme.states).flatMap(([state, look]) =>
      Object.entries(look[mode]).map(([part, value]) => `--${state}-${part}:${value}`),
    ),
    ...theme.options[mode].flatMap(({ fill, text }, i) => [`--option${i}-fill:${fill}`, `--option${i}-text:${text}`]),
    ...["span", "source"].flatMap((group) =>
      Object.entries(theme[`${group}s`][mode]).map(([kind, value]) => `--${group}-${kind}:${value}`),
    ),
    `--ramp:linear-gradient(90deg,${theme.heat[mode].join(",")})`,
  ].join(";");

/** Light by default; dark by the system's wish, except inside a Gradio page, where its `dark` class alone decides. */
export function themeCss(theme) {
  const light = declare(theme, "light"),
    dark = declare(theme, "dark");
  const states = Object.entries(theme.states).map(
    ([state, { border }]) =>
      `.dx [data-s="${state}"]{--fill:var(--${state}-fill);--ink:var(--${state}-text);` +
      `--edge:var(--${state}-line);--style:${border}}`,
  );
  for (const kind of Object.keys(theme.sources.light))
    states.push(`.dx [data-source="${kind}"]{--source:var(--source-${kind})}`);
  const wish = `@media(prefers-color-scheme:dark){.dx:not(.gradio-container .dx,.light .dx){${dark}}}`;
  return `.dx{${light}}${wish}.dark .dx,.dx.dark{${dark}}${states.join("")}`;
}

export function installTheme(theme) {
  if (document.getElementById("dx-theme")) return;
  const style = document.createElement("style");
  style.id = "dx-theme";
  style.textContent = themeCss(theme);
  document.head.append(style);
}

export function modeOf(element) {
  return getComputedStyle(element).getPropertyValue("--dx-mode").trim() || "light";
}

export const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

export function luminance(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The heat ramp in 32 levels: {rgb, fill, text}; the text is black or white, whichever can be read better. */
export function ramp(theme, mode) {
  const stops = theme.heat[mode].map(rgbOf);
  return Array.from({ length: LEVELS }, (_, level) => {
    const place = (level / (LEVELS - 1)) * (stops.length - 1),
      i = Math.min(Math.floor(place), stops.length - 2);
    const rgb = stops[i].map((c, channel) => Math.round(c + (stops[i + 1][channel] - c) * (place - i)));
    return { rgb, fill: `rgb(${rgb.join(",")})`, text: luminance(rgb) > 0.179 ? "#000" : "#fff" };
  });
}

export const levelOf = (part) => (Number.isNaN(part) ? -1 : Math.round(part * (LEVELS - 1)));

export function spanColour(theme, mode, kind) {
  return theme.spans[mode][Object.hasOwn(theme.spans[mode], kind) ? kind : "other"];
}
