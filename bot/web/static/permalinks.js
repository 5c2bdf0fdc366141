// A link to a finding that is folded away opens what it is folded into; printing opens everything.
(() => {
  "use strict";
  function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    let moved = false;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      moved ||= !fold.open;
      fold.open = true;
    }
    if (moved) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  let opened = [];
  function set(open) {
    for (const fold of opened) fold.open = open;
  }
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".folds details:not([open])")];
    set(true);
  });
  addEventListener("afterprint", () => set(false));
  reveal();
})();
