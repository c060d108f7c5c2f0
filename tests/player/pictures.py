"""What the tests of all pictures ask: that one holds on every step, in panels of every width, light and dark."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

PANELS: list[dict[str, Any]] = [
    {},
    *({"viewport": {"width": width, "height": 800}} for width in (1280, 390, 820)),
    {"color_scheme": "dark"},
]
INSIDE = """(svg) => { const box = svg.getBoundingClientRect();
  const shown = [...svg.querySelectorAll("text")].filter((one) => one.textContent)
    .flatMap((one) => [...one.getClientRects()]);
  return shown.filter(({ left, right }) => left < box.left - 2 || right > box.right + 2).length; }"""  # texts outside


def held_on_every_step(page: Any, name: str, steps: int) -> Any:
    """The view, after its picture was drawn at each step with no text outside."""
    view = page.locator(f'[data-view="{name}"]')
    page.evaluate("handles[0].seek(0)")
    expect(view.locator(".dx-readout").first).to_have_text("Before the first step.")
    drawn = 0
    for t in range(1, steps + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        if view.locator("svg.dx-tower").is_visible():
            assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0, t
            drawn += 1
    assert drawn
    return view
