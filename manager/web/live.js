// Replaces the live part of a page every two seconds, where the page is visible and no control in it has the focus.
"use strict";
const live = document.getElementById("live");
async function refresh() {
  if (!live || document.hidden || live.contains(document.activeElement)) return;
  const url = new URL(location.href);
  url.searchParams.set("fragment", "1");
  try {
    const r = await fetch(url, { headers: { Accept: "text/html" } });
    if (!r.ok || r.redirected) throw new Error(r.status);
    live.innerHTML = await r.text();
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  }
}
setInterval(refresh, 2000);
