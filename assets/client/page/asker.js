// Sends the query of the address that the page was opened with, once, if it names runs, and that of `dx-follow` later.
// A page without one asks for nothing.

export function mountAsker(props, trigger) {
  const query = new URLSearchParams(location.search);
  const follow = (text) => {
    props.value = text;
    trigger("submit");
  };
  if (["run", "gallery", "scene"].some((key) => query.has(key))) follow(location.search);
  document.addEventListener("dx-follow", ({ detail }) => follow(`${detail}&asked=${Date.now()}`));
}
