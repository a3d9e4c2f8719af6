// A slider that says its name: the browser's own, with a label, keys and a value in words.

function render({ model, el }) {
  const root = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input");
  const words = document.createElement("span"), value = document.createElement("output");
  root.className = "wb-slider";
  input.type = "range";
  label.append(words, value, input);
  root.appendChild(label);
  el.appendChild(root);

  const stops = () => model.get("stops");
  const text = (at) => (stops().length ? stops()[at]?.[0] ?? "" : String(Number(at.toPrecision(6))).replace("-", "−"));
  function draw() {
    const given = stops().length > 0, now = model.get("value");
    input.min = given ? 0 : model.get("start");
    input.max = given ? stops().length - 1 : model.get("end");
    input.step = given ? 1 : model.get("step");
    input.value = given ? Math.max(0, stops().findIndex(([, v]) => v === now)) : now;
    words.textContent = `${model.get("label")} `;
    input.setAttribute("aria-label", model.get("label")); // an output would take the label
    say();
  }
  function say() {
    value.textContent = text(Number(input.value));
    input.setAttribute("aria-valuetext", value.textContent);
  }
  function send() {
    const at = Number(input.value);
    model.set("value", stops().length ? stops()[at][1] : at);
    model.save_changes();
  }
  input.addEventListener("input", say);
  input.addEventListener("change", send);
  const names = ["label", "value", "start", "end", "step", "stops"];
  for (const name of names) model.on(`change:${name}`, draw);
  draw();
  return () => { for (const name of names) model.off(`change:${name}`, draw); };
}

export default { render };
