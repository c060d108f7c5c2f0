// What a visitor sees before touching anything: {controls, words, texts} of the viewport. A board is one place, whatever
// its cells; what only a screen reader reads is not seen.
() => {
  const APART = ".visually-hidden, .dx-say",
    CONTROL = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const within = ({ width, height, top, bottom, left, right }) =>
    width > 1 && height > 1 && bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
  const seen = (node) =>
    node.checkVisibility({ visibilityProperty: true }) && within(node.getBoundingClientRect()) && !node.closest(APART);
  const controls = [...document.querySelectorAll(CONTROL)]
    .filter((node) => seen(node) && !node.disabled && !node.matches(".dx-board, .dx-bars-box"))
    .map((node) => `${node.tagName} ${(node.ariaLabel || node.textContent).trim().slice(0, 40)}`);
  const texts = [],
    range = document.createRange(),
    walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { currentNode: node } = walk;
    if (!node.data.trim() || !seen(node.parentElement) || node.parentElement.closest(".dx-board, option, script, style"))
      continue;
    range.selectNodeContents(node);
    if ([...range.getClientRects()].some(within)) texts.push(node.data.trim());
  }
  const words = texts.flatMap((text) => text.split(/\s+/)).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
  return { controls, words, texts };
};
