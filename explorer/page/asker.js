// Sends the query of the address that the page was opened with, once, if it names a run. A page without one asks for
// nothing.
const query = new URLSearchParams(location.search);
if (query.has("run") || query.has("gallery")) {
  props.value = location.search;
  trigger("submit");
}
