// A file that is dropped on the picture: the kernel gets its name and its text and says what it makes of them.

const DROPPED = 65537; // bytes that are read; the kernel refuses what is longer than one less

function dropTool({ root, model }) {
  const over = (event) => { if (model.get("takes_files")) { event.preventDefault(); event.stopPropagation(); } };
  root.addEventListener("dragover", over);
  root.addEventListener("drop", async (event) => {
    over(event);
    const file = event.dataTransfer?.files[0];
    if (!model.get("takes_files") || !file) return;
    const text = await file.slice(0, DROPPED).text();
    model.set("dropped", { name: file.name, text, count: (model.get("dropped").count ?? 0) + 1 });
    model.save_changes();
  });
}
