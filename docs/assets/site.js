// What the theme leaves out for people who do not see the page, or have no mouse.

/** Mend what is there now; the theme makes some of it only when it comes into view. */
function mend() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // A button to copy is no navigation, and a page has many.
  for (const tools of document.querySelectorAll(".md-code__nav:not([role])")) tools.setAttribute("role", "none");
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([role])")) {
    wrap.tabIndex = 0;
    wrap.setAttribute("role", "group");
    wrap.setAttribute("aria-label", "Table");
  }
  for (const wrap of document.querySelectorAll(".md-typeset p:has(> img[src*='first-']):not([role])")) {
    wrap.tabIndex = 0;
    wrap.setAttribute("role", "group");
    wrap.setAttribute("aria-label", "Chart");
  }
}

mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
