// Follows links between the texts without leaving the page, and the one that the page was opened with (?doc=NAME).
const open = (name) => {
  props.value = name;
  trigger("submit");
};
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('#docs a[href*="?doc="]');
  if (!link) return;
  event.preventDefault();
  open(new URL(link.href).searchParams.get("doc"));
});
const wanted = new URLSearchParams(location.search).get("doc");
if (wanted) open(wanted);
