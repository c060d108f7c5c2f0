// Mounts the players of a page, its lesson's stops and its filters. Classic script: browsers refuse modules from disk.
"use strict";
(() => {
  const root = document.documentElement,
    toggle = document.getElementById("mode");
  const dark = () =>
    root.classList.contains("dark") ||
    (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  const label = () => toggle.setAttribute("aria-label", dark() ? "Change to light colours" : "Change to dark colours");
  toggle.hidden = false;
  toggle.textContent = "◐";
  label();
  toggle.addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    root.classList.remove("light", "dark");
    root.classList.add(next);
    label();
    dxModules.use("player/remember.js").store("dx-mode", next);
  });

  const mounted = (panels) => (slot) =>
    dxModules
      .use("player/player.js")
      .mount(panels.appendChild(document.createElement("div")), { slot, theme: dxTheme });
  const fetched = async (id) => {
    const { name, views } = dxScenes.runs[id];
    await Promise.all(views.map((view) => dxModules.load(`views/${view}.js`)));
    if (!dxTraces[name]) await dxModules.script(`data/${name}.js`);
    return dxTraces[name];
  };

  for (const stage of document.querySelectorAll("[data-play]")) {
    const [bar, panels] = stage.children,
      toolbar = dxModules.use("player/toolbar.js").mountToolbar(bar, { theme: dxTheme }),
      names = stage.dataset.play.split(" "),
      first =
        window.dxScenes &&
        names.map((name) => Object.keys(dxScenes.runs).find((id) => dxScenes.runs[id].name === name));
    const plays = stage.hasAttribute("data-auto") && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    let handles = null;
    if (first?.every(Boolean)) {
      const { scenes, known } = dxScenes;
      const told = { known, scenes, first, before: bar, panels, mount: mounted(panels), source: fetched };
      const shown = dxModules.use("page/offline.js").offline(told);
      handles = shown.players;
      if (plays) shown.play();
    } else {
      handles = names.map((name, slot) => {
        const handle = mounted(panels)(slot);
        handle.load(dxTraces[name]);
        return handle;
      });
      if (plays) toolbar.group.play();
    }
    window.handles = handles;
    for (const stop of document.querySelectorAll("button[data-step]")) {
      stop.hidden = false;
      stop.addEventListener("click", () => {
        handles[0].seek(Number(stop.dataset.step));
        for (const other of document.querySelectorAll("button[data-step]"))
          other.setAttribute("aria-pressed", String(other === stop));
        const top = stage.getBoundingClientRect().top;
        if (top < 0 || top > innerHeight / 2)
          stage.scrollIntoView({
            block: "start",
            behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
          });
      });
    }
  }

  for (const field of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.querySelectorAll(`#${field.dataset.filter} tbody tr`)],
      count = document.getElementById(`${field.dataset.filter}-count`);
    const apply = () => {
      const fits = dxModules.use("page/sorting.js").matching(field.value);
      for (const row of rows) row.hidden = !fits(row);
      count.textContent = `${rows.filter(({ hidden }) => !hidden).length} of ${rows.length}`;
    };
    field.closest("[hidden]")?.removeAttribute("hidden");
    field.addEventListener("input", apply);
    apply();
  }
  for (const table of document.querySelectorAll("table[data-sort]")) dxModules.use("page/sorting.js").sortable(table);
})();
