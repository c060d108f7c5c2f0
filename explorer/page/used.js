// Whether this browser has used the page, or the address leads somewhere: then nothing of it is hidden at first.
{
  const plain = ["still", "__theme", "lang"];
  const leads = [...new URLSearchParams(location.search).keys()].some((name) => !plain.includes(name));
  let used = null;
  try {
    used = localStorage.getItem("dx-touched");
  } catch {
    // no storage: as at first
  }
  if (leads || used === "open") document.documentElement.dataset.touched = "";
}
