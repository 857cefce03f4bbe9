// What the theme's script adds to a page lacks names, and code that scrolls lacks the keyboard on devices without hover.
(() => {
  const scrollable = "pre > code, .md-typeset__scrollwrap";
  const mend = () => {
    document.querySelectorAll(".md-code__nav:not([aria-label])").forEach(one => {
      one.setAttribute("aria-label", `Code block ${one.closest("pre")?.id ?? ""}`);
    });
    for (const one of document.querySelectorAll(".md-version__current")) {
      const name = `${one.textContent.trim()}: select a version`;
      if (one.getAttribute("aria-label") !== name) one.setAttribute("aria-label", name);
    }
    for (const one of document.querySelectorAll(scrollable)) {
      if (one.scrollWidth > one.clientWidth && !one.hasAttribute("tabindex")) one.tabIndex = 0;
    }
  };
  const changes = { childList: true, subtree: true, attributes: true, attributeFilter: ["tabindex"] };
  new MutationObserver(mend).observe(document.documentElement, changes);
  addEventListener("resize", mend);
  mend();
})();
