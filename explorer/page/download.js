// Saves files that the server composed: {files: [{name, type, text}]}. Nothing is kept on the server.
const save = ({ name, type, text }) => {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};
watch("value", () => {
  try { JSON.parse(props.value || "{}").files?.forEach(save); } catch { /* not a list of files */ }
});
