// A button that folds the toolbar to its first line, so that the players stay in sight; folded from the start where the
// screen is narrow.
function foldable({ root }) {
  const more = document.createElement("button"),
    narrow = matchMedia("(max-width: 700px)");
  const fold = (folded) => {
    root.toggleAttribute("data-folded", folded);
    more.setAttribute("aria-expanded", String(!folded));
  };
  Object.assign(more, { type: "button", className: "more", textContent: "More", title: "Clock, speed and race" });
  more.addEventListener("click", () => fold(!root.hasAttribute("data-folded")));
  narrow.addEventListener("change", () => fold(narrow.matches));
  fold(narrow.matches);
  root.querySelector(".dx-place").after(more);
}
