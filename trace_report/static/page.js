// The trace report: tables that sort, a rank to look at, curves, and windows that open in Perfetto.
(() => {
  "use strict";
  const PERFETTO = "https://ui.perfetto.dev";
  const ANSWER_MS = 60000;
  document.documentElement.classList.add("js");

  // Tables
  function sortBy(header) {
    const row = header.parentNode, table = header.closest("table"), body = table.tBodies[0];
    const place = [...row.children].indexOf(header), numeric = header.classList.contains("n");
    const before = header.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numeric;
    for (const other of row.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (line) => {
      const cell = line.children[place];
      return numeric ? Number(cell.dataset.v ?? NaN) : cell.textContent;
    };
    const order = (a, b) => {
      const x = key(a), y = key(b);
      if (!numeric) return x.localeCompare(y);
      return Number.isNaN(x) ? (down ? -1 : 1) : Number.isNaN(y) ? (down ? 1 : -1) : x - y;
    };
    const lines = [...body.rows].sort(order);
    if (down) lines.reverse();
    body.append(...lines);
  }
  // One listener for all tables, those that come into the page later too.
  document.addEventListener("click", (event) => {
    const header = event.target.closest("table.sortable thead th");
    if (header && event.target.closest("button")) sortBy(header);
  });
  document.addEventListener("input", (event) => {
    const input = event.target;
    if (!input.matches("input.filter")) return;
    const wanted = input.value.toLowerCase();
    for (const line of input.parentNode.querySelectorAll("tbody tr"))
      line.hidden = !line.textContent.toLowerCase().includes(wanted);
  });
  // Long names are cut after two lines; the whole one shows as a title, and is in the page once.
  document.addEventListener("pointerover", (event) => {
    const name = event.target.closest(".clamp");
    if (name && name.scrollHeight > name.clientHeight) name.title = name.textContent;
  });

  // Curves
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLORS = ["--p6", "--p3", "--p0", "--p5", "--p8", "--p1", "--dim", "--soft"];
  function short(value) {
    if (value == null) return "–";
    const size = Math.abs(value);
    for (const [step, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= step * 10 || (size >= step && step > 1e3)) return `${+(value / step).toPrecision(4)} ${letter}`;
    return String(+value.toPrecision(4));
  }
  const drawn = new Map();
  function draw(place) {
    const data = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const stepped = data.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const series = data.series.map((line, at) => ({
      label: line.label, stroke: color(COLORS[at % COLORS.length]), width: line.bold ? 2.5 : 1.5, paths: stepped,
      points: { show: data.x.length < 40 && !data.stepped }, value: (_, v) => (v == null ? "–" : `${short(v)}${data.unit}`),
    }));
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const whole = data.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000], values: (_, marks) => marks.map(String) } : {};
    const options = {
      width: place.clientWidth, height: 230, scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [{ ...axis, label: data.x_label, labelSize: 20, labelFont: "12px sans-serif", ...whole }, { ...axis, size: 68, values: (_, marks) => marks.map((v) => `${short(v)}${data.unit}`) }],
      series: [{ label: data.x_label, value: (_, v) => (v == null ? "–" : String(+v.toPrecision(6))) }, ...series], cursor: { drag: { x: true, y: false } },
    };
    drawn.get(place)?.destroy();
    drawn.set(place, new uPlot(options, [data.x, ...data.series.map((line) => line.values)], place));
  }
  // What is hidden, or drawn at this width already, costs nothing.
  function drawVisible() {
    for (const place of document.querySelectorAll("[data-chart]"))
      if (place.clientWidth && drawn.get(place)?.width !== place.clientWidth) draw(place);
    performance.mark("curves drawn");
  }
  let later;
  addEventListener("resize", () => { clearTimeout(later); later = setTimeout(drawVisible, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const place of drawn.keys()) draw(place); });

  // One rank at a time. To a browser with scripts, what is in <noscript> is one text, so the other ranks cost nothing
  // until someone looks at them, or prints.
  const picks = [...document.querySelectorAll(".picker button")];
  function readIn(later) {
    const held = document.createElement("template");
    held.innerHTML = later.textContent;
    later.replaceWith(held.content);
  }
  const show = (rank) => {
    for (const later of document.querySelectorAll("noscript.later")) if (later.dataset.rank === rank) readIn(later);
    for (const panel of document.querySelectorAll(".panel")) panel.hidden = panel.dataset.rank !== rank;
    for (const pick of picks) pick.setAttribute("aria-pressed", String(pick.dataset.rank === rank));
    drawVisible();
  };
  for (const pick of picks) pick.addEventListener("click", () => show(pick.dataset.rank));
  addEventListener("beforeprint", () => { for (const later of document.querySelectorAll("noscript.later")) readIn(later); });
  // The page can be read before its curves are drawn.
  addEventListener("load", () => setTimeout(drawVisible));

  // Windows of the trace, for Perfetto
  function bytesOf(id) {
    const text = atob(JSON.parse(document.getElementById(id).textContent));
    return Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer;
  }
  function openIn(button, say) {
    const perfetto = window.open(`${PERFETTO}/#!/?${button.dataset.view}`);
    if (!perfetto) return say("The browser blocked the new tab: allow pop-ups for this page, or save the window and open it in Perfetto.");
    // Perfetto's documentation: windows of pages at file:// are not taken. Newer versions may take them.
    const disk = location.protocol === "file:" ? " It may refuse pages that were opened from disk: then save the window, or serve this folder with python3 -m http.server." : "";
    say(`Waiting for ui.perfetto.dev …${disk}`);
    const ask = setInterval(() => perfetto.postMessage("PING", PERFETTO), 100);
    const stop = () => { clearInterval(ask); clearTimeout(late); removeEventListener("message", heard); };
    const late = setTimeout(() => { stop(); say("No answer from ui.perfetto.dev. Save the window and open it there by hand."); }, ANSWER_MS);
    function heard(message) {
      if (message.origin !== PERFETTO || message.source !== perfetto || message.data !== "PONG") return;
      stop();
      const buffer = bytesOf(button.dataset.window), title = button.dataset.title;
      perfetto.postMessage({ perfetto: { buffer, title, fileName: "window.json.gz" } }, PERFETTO, [buffer]);
      say("Opened in Perfetto, in your browser: nothing was uploaded.");
    }
    addEventListener("message", heard);
  }
  function save(button) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytesOf(button.dataset.window)], { type: "application/gzip" }));
    link.download = button.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  for (const button of document.querySelectorAll("button[data-window]")) {
    const said = button.closest("li").querySelector(".said");
    const act = button.dataset.file ? () => save(button) : () => openIn(button, (text) => { said.textContent = text; });
    button.addEventListener("click", act);
  }
})();
