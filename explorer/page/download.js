// Saves a file that the server composed: {name, type, text, n}. Nothing is kept on the server.
watch("value", () => {
  let data;
  try { data = JSON.parse(props.value || "{}"); } catch { return; }
  if (!data.text) return;
  const url = URL.createObjectURL(new Blob([data.text], { type: data.type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = data.name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
});
