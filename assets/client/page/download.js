// Saves files that the server composed: {files: [{name, type, text or base64}]}. Nothing is kept on the server.

const save = ({ name, type, text, base64 }) => {
  const data = base64 === undefined ? text : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([data], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};

export function mountDownload(props, watch) {
  watch("value", () => {
    try {
      JSON.parse(props.value || "{}").files?.forEach(save);
    } catch {
      /* not a list of files */
    }
  });
}
