// What components share: the data they are sent, and waiting for what others put on the page.

/** The object of the JSON text that a component holds; an empty one for what a component itself has put in. */
export function parsed({ value }) {
  try {
    return Object(JSON.parse(value || "{}"));
  } catch {
    return {};
  }
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
