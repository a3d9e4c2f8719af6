// A file to choose or to drop. Its size is looked at before it is read; the server looks again.

function render({ model, el }) {
  const root = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input");
  const words = document.createElement("span"), note = document.createElement("span");
  root.className = "wb-file";
  input.type = "file";
  note.setAttribute("role", "status");
  label.append(words, input);
  root.append(label, note);
  el.appendChild(root);

  function draw() {
    words.textContent = model.get("label");
    input.accept = model.get("accept");
  }
  function take(file) {
    note.textContent = "";
    if (!file) return;
    if (file.size > model.get("most")) {
      note.textContent = `This file has ${file.size} bytes; ${model.get("most")} are allowed.`;
      return;
    }
    const reader = new FileReader();
    reader.onload = () => {
      model.set("file", { name: file.name, data: String(reader.result).split(",")[1] ?? "", count: (model.get("file").count ?? 0) + 1 });
      model.save_changes();
      input.value = "";
    };
    reader.readAsDataURL(file);
  }
  input.addEventListener("change", () => take(input.files[0]));
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files[0]); });
  model.on("change:label", draw);
  draw();
  return () => model.off("change:label", draw);
}

export default { render };
