// Buttons that copy the command beside them. They are shown only where the browser lets pages write to the clipboard.
(() => {
  "use strict";
  if (!navigator.clipboard) return;
  const SAID_MS = 2000;
  document.documentElement.classList.add("copies");
  const status = document.createElement("p");
  status.className = "sr";
  status.setAttribute("role", "status");
  document.body.append(status);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    let result = "Copied";
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    } catch {
      result = "Not copied";
    }
    button.textContent = result;
    status.textContent = result;
    setTimeout(() => {
      button.textContent = "Copy";
      status.textContent = "";
    }, SAID_MS);
  });
})();
