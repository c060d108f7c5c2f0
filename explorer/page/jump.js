// The page's base address has no query, so that the browser would load the page anew for a link within it.
element.querySelector("a").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("stage").scrollIntoView();
});
