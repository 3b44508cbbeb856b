// Keeps this page's half of the session, which the browser shows to this address and port alone, and goes on to the page.
"use strict";
localStorage.setItem("key", document.querySelector("meta[name=key]").content);
addEventListener("load", () => location.replace("/"));
