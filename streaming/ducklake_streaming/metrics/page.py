"""The page for people as HTML: one document without a framework, which asks for nothing but itself. Pure.

It is whole without JavaScript. With it, the script fetches the page again every two seconds and exchanges its body.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files

from ducklake_streaming.metrics.cards import catalog_notice, headline, pipeline_card, tiles
from ducklake_streaming.metrics.markup import Markup, joined, tag
from ducklake_streaming.metrics.page_facts import PageFacts, run_sections
from ducklake_streaming.metrics.plots import Plot, draw
from ducklake_streaming.metrics.run_facts import State
from ducklake_streaming.metrics.tables import section_block
from ducklake_streaming.overview.lake_state import Section
from ducklake_streaming.overview.values import shown_age, shown_count

# Ours, and trusted: written into the page as they are.
STYLE, SCRIPT = (files(__package__).joinpath(name).read_text() for name in ("page.css", "page.js"))
NO_SCRIPT_SECONDS = 5
_ORDER = ("table", "consumer", "snapshot", "dead_letters", "letters", "maintenance", "flush", "warning", "stream")


def write_page(facts: PageFacts) -> str:
    """Return the document."""
    refresh = tag("noscript", tag("meta", http_equiv="refresh", content=NO_SCRIPT_SECONDS))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{_title(facts)} · ducklake-stream"),
        refresh,
        tag("style", Markup(STYLE)),
    )
    body = tag("body", tag("main", *_parts(facts), id="page"), tag("script", Markup(SCRIPT)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _title(facts: PageFacts) -> str:
    """Return what a tab of the browser shows: what is not well, else that all is."""
    sick = [one for one in facts.run.pipelines if one.state not in (State.RUNNING, State.STARTING, State.ENDED)]
    if sick:
        return f"{sick[0].name} {sick[0].state}"
    return "catalog away" if facts.problem else "running"


def _parts(facts: PageFacts) -> Iterator[Markup | None]:
    yield headline(facts)
    yield catalog_notice(facts)
    yield tiles(facts)
    cards = [pipeline_card(facts, one) for one in facts.run.pipelines]
    yield _block(
        f"Pipelines, the last {shown_age(facts.span_seconds // 60 * 60)}",
        *(cards or [tag("p", "no pipeline has begun yet", class_="none")]),
    )
    yield _inlined(facts)
    for section in _ordered(facts):
        yield section_block(section)


def _ordered(facts: PageFacts) -> list[Section]:
    """Return the tables below the pipelines: what the lake has, and what the run knows, in the order of people."""
    known = {one.kind: one for one in (*run_sections(facts), *(facts.lake.sections if facts.lake else ()))}
    return [known[kind] for kind in _ORDER if kind in known]


def _inlined(facts: PageFacts) -> Markup | None:
    plots = [
        draw(Plot(name, values, lambda rows: shown_count(int(rows)), "inlined"))
        for name, values in facts.inlined.items()
    ]
    return _block("Inlined rows, not flushed yet", tag("div", *plots, class_="plots")) if plots else None


def _block(title: str, *children: Markup) -> Markup:
    return tag("section", tag("h2", title), joined(children))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Nothing may be loaded, sent or run but this style, this script, and the page again.
PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}
