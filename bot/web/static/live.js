// Follows a running investigation: appends its lines of progress, and swaps the page's content in place on each new stage.
(() => {
  "use strict";
  const page = () => document.getElementById("case");
  const start = page();
  if (!start || start.dataset.over === "yes" || !window.EventSource) return;

  const address = `/investigations/${encodeURIComponent(start.dataset.investigation)}`;
  const stream = new EventSource(`${address}/events?after=${encodeURIComponent(start.dataset.after)}`);
  let state = null;
  let loading = Promise.resolve();

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  function append(line) {
    const list = document.getElementById("progress");
    if (!list || list.querySelector(`[data-seq="${Number(line.seq)}"]`)) return;
    list.querySelector("li.dim:not([data-seq])")?.remove();
    const item = document.createElement("li");
    item.dataset.seq = line.seq;
    const time = element("time", line.clock);
    time.dateTime = line.at;
    item.append(time, element("b", line.stage), element("span", line.text));
    list.append(item);
  }

  async function swap() {
    const open = [...page().querySelectorAll("details[open][id]")].map((fold) => fold.id);
    await htmx.ajax("GET", address, { target: "#case", select: "#case", swap: "outerMorph" });
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    document.title = page()?.dataset.title || document.title;
  }

  function reload() {
    loading = loading.then(swap, swap);
  }

  stream.addEventListener("progress", (event) => append(JSON.parse(event.data)));
  stream.addEventListener("state", (event) => {
    if (state !== null && state !== event.data) reload();
    state = event.data;
  });
  stream.addEventListener("done", () => {
    stream.close();
    reload();
  });
})();
