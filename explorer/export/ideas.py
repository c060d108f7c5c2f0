"""The picture of a run's idea as a thumbnail: what the player draws first, without words. A browser draws it, so this
is made when a run is recorded and kept beside it; what the test extra installs is needed.

A thumbnail names the file that it is of, by the first digits of its sha256, so that a stale one is found."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engines import Trace, UserError
from explorer.export.html import export_html

WIDE, HIGH = 1120, 800  # of the window that it is drawn in
OF = "data-of"
SHAPES = """(view) => {
  const drawing = view.querySelector("svg.dx-tree");
  if (!drawing) return null;
  const short = (one) => String(Math.round(one)),
    plain = getComputedStyle(view).color;
  const paint = (colour) => { // [#rrggbb, how opaque]; colours are told as rgb(), rgba() or color(srgb)
    if (colour === "none") return ["none", 0];
    if (colour.startsWith("url")) return ["#e4e7ec", 1];
    const [r, g, b, opaque = 1] = colour.match(/[\\d.e-]+/g).slice(colour.startsWith("color(") ? -4 : 0).map(Number),
      whole = colour.startsWith("color(") ? 255 : 1;
    const hex = [r, g, b].map((one) => Math.round(whole * one).toString(16).padStart(2, "0")).join("");
    return [colour === plain ? "#808891" : `#${hex}`, opaque];
  };
  const back = drawing.getScreenCTM().inverse(), looks = new Map(), ends = [Infinity, Infinity, -Infinity, -Infinity];
  const outline = (node, { a, d, e, f }) => {
    const at = (name) => Number(node.getAttribute(name) ?? 0), X = (x) => short(a * x + e), Y = (y) => short(d * y + f);
    if (node.tagName === "rect") {
      const [w, h] = [short(a * at("width")), short(d * at("height"))];
      return w > 0 && h > 0 ? `M${X(at("x"))} ${Y(at("y"))}h${w}v${h}h-${w}z` : "";
    }
    if (node.tagName === "circle") {
      const r = short(a * at("r"));
      const round = (way) => `a${r} ${r} 0 1 0 ${way}${short(2 * r)} 0`;
      return `M${X(at("cx") - at("r"))} ${Y(at("cy"))}${round("")}${round("-")}z`;
    }
    if (node.tagName === "line") return `M${X(at("x1"))} ${Y(at("y1"))}L${X(at("x2"))} ${Y(at("y2"))}`;
    return node.tagName === "path" && a === 1 && d === 1 && !e && !f
      ? (node.getAttribute("d") ?? "").replace(/-?\\d+\\.\\d+/g, short) : null;
  };
  const draw = (node, opacity) => {
    const style = getComputedStyle(node), all = opacity * style.opacity;
    if (style.display === "none" || style.visibility === "hidden" || all < 0.03) return;
    if (["g", "svg"].includes(node.tagName)) return void [...node.children].forEach((child) => draw(child, all));
    if (!["path", "rect", "circle", "line"].includes(node.tagName)) return;
    const [fill, filled] = paint(style.fill), [stroke, drawn] = paint(style.stroke);
    const look = { fill: filled && node.tagName !== "line" ? fill : "none" };
    if (drawn) {
      Object.assign(look, { stroke, "stroke-width": parseFloat(style.strokeWidth) });
      if (style.strokeDasharray !== "none") look["stroke-dasharray"] = style.strokeDasharray.replace(/px|,/g, "");
    }
    if (!filled && !drawn) return;
    const opaque = all * (filled || drawn);
    if (opaque < 0.99) look.opacity = opaque.toFixed(2);
    const matrix = back.multiply(node.getScreenCTM()), { a, b, c, d, e, f } = matrix;
    let line = outline(node, matrix);
    if (line === null) {
      look.transform = `matrix(${[a, b, c, d].map((one) => one.toFixed(2))},${short(e)},${short(f)})`;
      line = (node.getAttribute("d") ?? "").replace(/-?\\d+\\.\\d+/g, short);
    }
    const key = Object.entries(look).map(([name, value]) => `${name}="${value}"`).join(" ");
    if (!line) return;
    looks.set(key, (looks.get(key) ?? "") + line);
    const { x, y, width, height } = node.getBBox();
    ends[0] = Math.min(ends[0], a * x + e);
    ends[1] = Math.min(ends[1], d * y + f);
    ends[2] = Math.max(ends[2], a * (x + width) + e);
    ends[3] = Math.max(ends[3], d * (y + height) + f);
  };
  draw(drawing, 1);
  const [left, top, right, foot] = ends;
  return [
    [left - 2, top - 2, right - left + 4, foot - top + 4].map((one) => Math.round(one)).join(" "),
    [...looks].map(([look, line]) => `<path ${look} d="${line}"/>`).join(""),
  ];
}"""


@contextmanager
def browser() -> Iterator[Any]:
    """A page of a browser. Raises UserError where there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise UserError('pictures of ideas are drawn in a browser; install it with pip install -e ".[test]".') from None
    binary = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        try:
            opened = play.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        except Error as error:
            raise UserError(f"no browser starts: {str(error).splitlines()[0]}.") from None
        try:
            yield opened.new_page(viewport={"width": WIDE, "height": HIGH}, color_scheme="light")
        finally:
            opened.close()


def digest(file: Path) -> str:
    """What a thumbnail says of the recording that it is of."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def idea(page: Any, trace: Trace, step: int, of: str) -> str | None:
    """What the player draws first of a run at a step, as SVG without words; None where that is no drawing."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.html"
        file.write_text(export_html([trace]), "utf-8")
        page.goto(file.as_uri())
        page.wait_for_function("() => window.handles?.length")
        page.emulate_media(reduced_motion="reduce")
        page.evaluate("(step) => window.handles[0].seek(step)", step)
        view = page.locator("[data-idea]").first
        drawing = view.evaluate(SHAPES) if view.count() else None
    if not drawing or not drawing[1]:
        return None
    box, shapes = drawing
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" preserveAspectRatio="none" {OF}="{of}">'
    return f"{head}{shapes}</svg>\n"


def told_of(text: str) -> str:
    """The recording that a thumbnail says it is of; "" for a board, which is drawn anew to be compared."""
    match = re.match(rf'<svg [^>]*{OF}="([0-9a-f]{{16}})"', text)
    return match[1] if match else ""
