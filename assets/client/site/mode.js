// Before anything is drawn: the mode that was chosen here earlier, if any.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("dx-mode");
  } catch {
    /* storage is closed to us; the system's wish holds */
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.classList.add(chosen);
})();
