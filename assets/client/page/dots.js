// Clicks on the dots of plotly figures inside the element `props.within`: the value becomes {"dot": customdata, "n"},
// and `submit` is raised.

export function mountDots(props, trigger) {
  const place = document.getElementById(props.within),
    attached = new WeakSet();
  let n = 0;
  const attach = () => {
    for (const figure of place?.querySelectorAll(".js-plotly-plot") ?? []) {
      if (!figure.on || attached.has(figure._ev)) continue; // a figure that is drawn anew has a new emitter
      attached.add(figure._ev);
      figure.on("plotly_click", ({ points }) => {
        props.value = JSON.stringify({ dot: points[0]?.customdata ?? null, n: n++ });
        trigger("submit");
      });
    }
  };
  if (place)
    new MutationObserver(attach).observe(place, {
      childList: true,
      subtree: true,
      attributes: true,
      attributeFilter: ["class"],
    });
  attach();
}
