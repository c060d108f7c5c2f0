// Elements without markup: text is always text.

/** An element with attributes (null and false leave one out), handlers (`on...`) and children. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** Loads a style sheet that is beside the module at `base`, once. */
export function styles(name, base) {
  const href = new URL(name, base).href;
  if (document.querySelector(`link[href="${href}"]`)) return;
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

/** Calls `act` with the elements of these selectors as soon as all of them are on the page. */
export function whenThere(selectors, act) {
  const look = () => {
    const found = selectors.map((one) => document.querySelector(one));
    if (found.includes(null)) return false;
    act(...found);
    return true;
  };
  if (look()) return;
  const watch = new MutationObserver(() => look() && watch.disconnect());
  watch.observe(document.body, { childList: true, subtree: true });
}
