// Zooms the timeline: buttons, and a drag along its axis. Marks keep their place in percent of the whole beside them.
(() => {
  "use strict";
  const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const SVG = "http://www.w3.org/2000/svg";
  const NARROWEST = 0.5;

  function label(seconds, step) {
    const at = new Date(seconds * 1000).toISOString();
    return step < 60 ? at.slice(11, 19) : step < 86400 ? at.slice(11, 16) : at.slice(5, 10);
  }

  function set(section, view) {
    const { from, to } = view;
    const place = (x) => ((x - from) / (to - from)) * 100;
    for (const element of section.querySelectorAll("[data-x], [data-x1]")) {
      const one = element.dataset;
      if (one.x1 !== undefined) {
        element.setAttribute("x1", `${place(+one.x1)}%`);
        element.setAttribute("x2", `${place(+one.x2)}%`);
      } else if (one.whole !== undefined) {
        element.setAttribute("x", `${place(+one.x)}%`);
        element.setAttribute("width", `${(100 * +one.w) / (to - from)}%`);
      } else if (one.w !== undefined) {
        const begin = Math.max(0, place(+one.x));
        const end = Math.min(100, place(+one.x + +one.w));
        element.setAttribute("x", `${begin}%`);
        element.setAttribute("width", `${Math.max(0, end - begin)}%`);
      } else {
        const at = place(+one.x);
        element.setAttribute("x", `${at}%`);
        element.setAttribute("visibility", at < -0.01 || at > 100.01 ? "hidden" : "visible");
      }
      if (one.x1 !== undefined && one.x1 === one.x2) {
        const at = place(+one.x1);
        element.setAttribute("visibility", at < 0 || at > 100 ? "hidden" : "visible");
      }
    }
    ticks(section, view, place);
  }

  function ticks(section, { from, to }, place) {
    const start = +section.dataset.start;
    const length = +section.dataset.end - start;
    const [first, last] = [start + (length * from) / 100, start + (length * to) / 100];
    const step = STEPS.find((s) => (last - first) / s <= 5) || STEPS.at(-1);
    const axis = section.querySelector(".axis svg");
    axis.replaceChildren();
    for (let at = Math.ceil(first / step) * step; at <= last; at += step) {
      const x = place(((at - start) / length) * 100);
      const line = document.createElementNS(SVG, "line");
      for (const [k, v] of [["x1", `${x}%`], ["x2", `${x}%`], ["y1", 14], ["y2", 18]]) line.setAttribute(k, v);
      const text = document.createElementNS(SVG, "text");
      for (const [k, v] of [["x", `${x}%`], ["y", 10], ["text-anchor", x < 4 ? "start" : x > 96 ? "end" : "middle"]]) text.setAttribute(k, v);
      text.textContent = label(at, step);
      axis.append(line, text);
    }
    for (const line of section.querySelectorAll(".grid")) line.setAttribute("visibility", from === 0 && to === 100 ? "visible" : "hidden");
  }

  function views(section) {
    section.view ||= { from: 0, to: 100 };
    return section.view;
  }

  function move(section, from, to) {
    const width = Math.min(100, Math.max(NARROWEST, to - from));
    const begin = Math.min(100 - width, Math.max(0, from));
    section.view = { from: begin, to: begin + width };
    set(section, section.view);
    for (const button of section.querySelectorAll(".zoom button")) {
      const whole = width >= 100;
      button.disabled = whole && button.dataset.zoom !== "in";
    }
  }

  const ACTIONS = {
    in: (s, { from, to }) => {
      const alert = +s.dataset.alert;
      const middle = alert > from && alert < to ? alert : (from + to) / 2;
      move(s, middle - (to - from) / 4, middle + (to - from) / 4);
    },
    out: (s, { from, to }) => move(s, from - (to - from) / 2, to + (to - from) / 2),
    left: (s, { from, to }) => move(s, from - (to - from) / 3, to - (to - from) / 3),
    right: (s, { from, to }) => move(s, from + (to - from) / 3, to + (to - from) / 3),
    all: (s) => move(s, 0, 100),
  };

  function prepare(section) {
    const box = section.querySelector(".zoom");
    if (!box || box.childElementCount) return;
    for (const [name, sign, said] of [["in", "+", "Zoom in"], ["out", "−", "Zoom out"], ["left", "←", "Earlier"], ["right", "→", "Later"], ["all", "all", "Show all"]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.zoom = name;
      button.textContent = sign;
      button.setAttribute("aria-label", said);
      button.disabled = name !== "in";
      box.append(button);
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-zoom]");
    const section = button?.closest(".timeline");
    if (section) ACTIONS[button.dataset.zoom](section, views(section));
  });

  let drag = null;
  document.addEventListener("pointerdown", (event) => {
    const axis = event.target.closest?.(".timeline .axis svg");
    if (axis) drag = { axis, from: event.clientX };
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { axis, from } = drag;
    drag = null;
    const section = axis.closest(".timeline");
    const box = axis.getBoundingClientRect();
    if (!section || Math.abs(event.clientX - from) < 6) return;
    const view = views(section);
    const at = (x) => view.from + ((x - box.left) / box.width) * (view.to - view.from);
    move(section, Math.min(at(from), at(event.clientX)), Math.max(at(from), at(event.clientX)));
  });

  const all = () => document.querySelectorAll(".timeline").forEach(prepare);
  document.addEventListener("htmx:after:swap", all);
  all();
})();
