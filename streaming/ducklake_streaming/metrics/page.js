"use strict";
// The page again every two seconds: its body is exchanged, so that there is one way to draw it. Not while nobody looks,
// and not while somebody marks a text.
const page = document.getElementById("page");

async function update() {
  if (document.hidden || !getSelection().isCollapsed) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(answer.status);
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const scrolled = [...page.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    page.replaceChildren(...found.getElementById("page").childNodes);
    page.querySelectorAll(".wide").forEach((one, number) => (one.scrollLeft = scrolled[number] ?? 0));
    document.title = found.title;
    page.classList.add("live");
    page.classList.remove("gone");
  } catch {
    page.classList.replace("live", "gone") || page.classList.add("gone");
  }
}

setInterval(update, 2000);
update();
