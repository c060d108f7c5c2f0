// Whether this browser has used the page, or the address leads somewhere: then nothing of it is hidden at first. Runs
// that the address names come from the server; until they are there the players keep their place (page.css).
{
  const plain = ["still", "__theme", "lang"];
  const names = [...new URLSearchParams(location.search).keys()],
    leads = names.some((name) => !plain.includes(name));
  let used = null;
  try {
    used = localStorage.getItem("dx-touched");
  } catch {
    // no storage: as at first
  }
  if (leads || used === "open") document.documentElement.dataset.touched = "";
  if (names.some((name) => ["scene", "gallery", "run"].includes(name))) document.documentElement.dataset.coming = "";
}
