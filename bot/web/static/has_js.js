// Runs before the first paint, so that what needs scripts never appears and disappears.
document.documentElement.classList.add("js");
