// The tabs of the page, and the query of its address: what a reload needs stands there. Nothing is requested.

function render({ model, el }) {
  const list = document.createElement("div");
  list.className = "wb-rail";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "lenses");
  el.appendChild(list);

  function draw() {
    const held = list.contains(el.getRootNode().activeElement);
    list.replaceChildren();
    for (const [name, title] of model.get("names")) {
      const chosen = name === model.get("chosen"), tab = document.createElement("button");
      tab.type = "button";
      tab.textContent = title;
      tab.dataset.name = name;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      tab.addEventListener("click", () => choose(name));
      list.appendChild(tab);
      if (chosen && held) tab.focus();
    }
  }
  function choose(name) {
    if (name === model.get("chosen")) return;
    model.set("chosen", name);
    model.save_changes();
  }
  function key(event) {
    const names = model.get("names").map(([name]) => name), at = names.indexOf(model.get("chosen"));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(names[(to + names.length) % names.length]);
  }
  function address() {
    if (model.get("query")) history.replaceState(history.state, "", `${location.pathname}?${model.get("query")}`);
  }
  list.addEventListener("keydown", key);
  model.on("change:names", draw);
  model.on("change:chosen", draw);
  model.on("change:query", address);
  draw();
  address();
  return () => { model.off("change:names", draw); model.off("change:chosen", draw); model.off("change:query", address); };
}

export default { render };
