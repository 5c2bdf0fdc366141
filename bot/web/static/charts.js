// Opens a finding's chart on demand: curves, the baseline shaded, the onset, the alert and the changes as lines.
(() => {
  "use strict";
  const HEIGHT = 220;
  const DASHES = [[], [6, 3], [2, 3]];
  const open = new Map();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const curveColors = () => ["--ink", "--control", "--ink2", "--edge"].map(color);
  const SVG = "http://www.w3.org/2000/svg";

  function short(value) {
    if (value == null) return "–";
    const size = Math.abs(value);
    for (const [step, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= step * 10 || (size >= step && step > 1e3)) return `${+(value / step).toPrecision(4)} ${letter}`;
    return String(+value.toPrecision(4));
  }

  function marks(data) {
    return (plot) => {
      const { ctx, bbox } = plot;
      const x = (seconds) => plot.valToPos(seconds, "x", true);
      const clipped = (from, to) => [Math.max(bbox.left, x(from)), Math.min(bbox.left + bbox.width, x(to))];
      ctx.save();
      ctx.fillStyle = color("--band");
      for (const [from, to] of data.baseline) {
        const [left, right] = clipped(from, to);
        if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
      }
      ctx.restore();
    };
  }

  function vertical(plot, seconds, style, dash) {
    const { ctx, bbox } = plot;
    const at = plot.valToPos(seconds, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }

  function lines(data) {
    return (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      for (const change of data.changes) vertical(plot, change.time, color("--ink"), [6, 3]);
      if (data.onset != null) vertical(plot, data.onset, color("--origin"), []);
      vertical(plot, data.alert, color("--ink2"), [2, 3]);
      const level = data.threshold == null ? NaN : plot.valToPos(data.threshold, "y", true);
      if (level >= bbox.top && level <= bbox.top + bbox.height) {
        ctx.strokeStyle = color("--control");
        ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, level);
        ctx.lineTo(bbox.left + bbox.width, level);
        ctx.stroke();
      }
      ctx.restore();
    };
  }

  function key(data) {
    const entries = [];
    if (data.baseline.length) entries.push(["baseline", "--edge", "box"]);
    if (data.onset != null) entries.push(["onset", "--origin", ""]);
    entries.push(["alert", "--ink2", "2 3"]);
    for (const change of data.changes.slice(0, 4)) entries.push([change.title, "--ink", "6 3"]);
    if (data.threshold != null) entries.push([`threshold ${short(data.threshold)}`, "--control", "4 4"]);
    const list = document.createElement("div");
    list.className = "chartkey";
    for (const [label, name, dash] of entries) {
      const item = document.createElement("span");
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("width", "16");
      svg.setAttribute("height", "10");
      const shape = document.createElementNS(SVG, dash === "box" ? "rect" : "path");
      if (dash === "box") {
        for (const [k, v] of [["width", 16], ["height", 10], ["rx", 2], ["fill", color("--band")], ["stroke", color(name)]]) shape.setAttribute(k, v);
      } else {
        for (const [k, v] of [["d", "M0 5H16"], ["stroke", color(name)], ["stroke-width", 2], ["stroke-dasharray", dash]]) shape.setAttribute(k, v);
      }
      svg.append(shape);
      item.append(svg, label);
      list.append(item);
    }
    if (data.left_out) list.append(`${data.left_out} more curves in the raw case`);
    return list;
  }

  function draw(figure, data) {
    open.get(figure)?.plot.destroy();
    figure.replaceChildren();
    const colors = curveColors();
    const tables = data.curves.map((curve) => [curve.times, curve.values]);
    const aligned = tables.length > 1 ? uPlot.join(tables) : tables[0];
    const unit = data.unit ? ` ${data.unit}` : "";
    const axis = { stroke: color("--ink2"), font: "12px system-ui, sans-serif", ticks: { stroke: color("--edge"), width: 1, size: 4 }, grid: { stroke: color("--line"), width: 1 } };
    const plot = new uPlot({
      width: figure.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      padding: [10, 8, 0, 0],
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      series: [
        { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
        ...data.curves.map((curve, n) => ({
          label: curve.label,
          stroke: colors[n % colors.length],
          dash: DASHES[Math.floor(n / colors.length) % DASHES.length],
          width: 1.5,
          spanGaps: tables.length > 1,
          points: { show: curve.times.length < 40, size: 4 },
          paths: curve.bars ? uPlot.paths.stepped({ align: 1 }) : undefined,
          value: (_plot, value) => (value == null ? "–" : short(value) + unit),
        })),
      ],
      scales: { y: { range: (_plot, low, high) => range(low, high, data.threshold) } },
      axes: [
        { ...axis, space: 76, values: [
          [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
          [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
          [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
        ] },
        { ...axis, size: 58, label: undefined, values: (_plot, ticks) => ticks.map(short) },
      ],
      hooks: { drawClear: [marks(data)], draw: [lines(data)] },
    }, aligned, figure);
    figure.append(key(data));
    open.set(figure, { plot, data });
  }

  function range(low, high, threshold) {
    if (low == null || high == null) return [0, 1];
    const limit = threshold != null && threshold <= high * 3 && threshold >= low / 3 ? threshold : high;
    const top = Math.max(high, limit);
    const bottom = low >= 0 && low < top * 0.6 ? 0 : low;
    const room = (top - bottom || Math.abs(top) || 1) * 0.08;
    return [bottom === 0 ? 0 : bottom - room, top + room];
  }

  function say(figure, text) {
    const line = document.createElement("p");
    line.className = "problem";
    line.textContent = text;
    figure.replaceChildren(line);
  }

  async function show(button, figure) {
    button.setAttribute("aria-expanded", "true");
    figure.hidden = false;
    if (open.has(figure)) return;
    say(figure, "Loading…");
    try {
      const answer = await fetch(button.dataset.chart, { headers: { accept: "application/json" } });
      const data = await answer.json();
      if (answer.ok) draw(figure, data);
      else say(figure, data.problem);
    } catch {
      say(figure, "The chart could not be loaded. Close and open it to try again.");
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-chart]");
    const figure = button && document.getElementById(button.getAttribute("aria-controls"));
    if (!figure) return;
    if (figure.hidden) show(button, figure);
    else {
      button.setAttribute("aria-expanded", "false");
      figure.hidden = true;
    }
  });

  for (const button of document.querySelectorAll("[data-chart][data-open]")) button.click();
  new ResizeObserver(() => {
    for (const [figure, { plot }] of open)
      if (!figure.hidden && figure.clientWidth) plot.setSize({ width: figure.clientWidth, height: HEIGHT });
  }).observe(document.documentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [figure, { data }] of [...open]) if (!figure.hidden) draw(figure, data);
  });
})();
