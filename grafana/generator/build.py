"""Makes Grafana's JSON of our values, by Grafana's own SDK: it knows the names and types of every field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from grafana.generator.boards import DASHBOARDS
from grafana.generator.values import Dashboard, Look, Panel, Query

AnyPanel: TypeAlias = timeseries.Panel | stat.Panel

_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_HEIGHTS = {Look.LINES: 8, Look.STACK: 8, Look.NUMBER: 4}
_VARIABLES = (
    ("instance", "ducklake_build_info"),
    ("pipeline", "ducklake_sink_running"),
    ("table", "ducklake_table_rows"),
)


def json_of(dashboard: Dashboard) -> str:
    """Return the file's text: the same for the same values."""
    made = _with_rows(_head(dashboard), dashboard).build()
    return JSONEncoder(sort_keys=True, indent=2).encode(made) + "\n"


def _head(dashboard: Dashboard) -> builders.Dashboard:
    made = (
        builders.Dashboard(dashboard.title)
        .uid(f"ducklake-{dashboard.name}")
        .description(dashboard.help)
        .tags(["ducklake"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(builders.DatasourceVariable("datasource").label("data source").type("prometheus"))
    )
    for name, metric in _VARIABLES:
        made = made.with_variable(_variable(name, metric))
    return made.links([_link(other) for other in DASHBOARDS])


def _variable(name: str, metric: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .datasource(_SOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)  # noqa: FBT003 # the SDK's way
        .include_all(True)  # noqa: FBT003 # the SDK's way
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _link(dashboard: Dashboard) -> builders.DashboardLink:
    title = dashboard.title.partition(": ")[2]
    return (
        builders.DashboardLink(title)
        .type(models.DashboardLinkType.LINK)
        .url(f"/d/ducklake-{dashboard.name}")
        .keep_time(True)  # noqa: FBT003 # the SDK's way
        .include_vars(True)  # noqa: FBT003 # the SDK's way
    )


def _with_rows(made: builders.Dashboard, dashboard: Dashboard) -> builders.Dashboard:
    number, top = 1, 0
    for row in dashboard.rows:
        made = made.with_row(builders.Row(row.title).id(number).grid_pos(models.GridPos(h=1, w=24, x=0, y=top)))
        number, top = number + 1, top + 1
        for panel, place in places(row.panels, top):
            made = made.with_panel(_panel(panel).id(number).grid_pos(place))
            number, top = number + 1, max(top, place.y + place.h)
    return made


def places(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, models.GridPos]]:
    """Yield each panel with its place: side by side, in lines that are as high as their highest panel."""
    left = height = 0
    for panel in panels:
        if left + panel.width > 24:
            left, top, height = 0, top + height, 0
        high = _HEIGHTS[panel.look]
        yield panel, models.GridPos(h=high, w=panel.width, x=left, y=top)
        left, height = left + panel.width, max(height, high)


def _panel(panel: Panel) -> AnyPanel:
    made: AnyPanel = _number(panel) if panel.look is Look.NUMBER else _lines(panel)
    made = made.title(panel.title).description(panel.help).datasource(_SOURCE).unit(panel.unit)
    for letter, query in zip(ascii_uppercase, panel.queries, strict=False):
        made = made.with_target(_target(letter, query, is_instant=panel.look is Look.NUMBER))
    return made.thresholds(_thresholds(panel)) if panel.bad_from is not None or panel.good_text else made


def _lines(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .min(0)
        .fill_opacity(10)
        .show_points(common_models.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)  # noqa: FBT003 # the SDK's way
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    )
    if panel.look is Look.STACK:
        made = made.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL)).fill_opacity(40)
    if panel.bad_from is not None:
        made = made.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
        )
    return made


def _number(panel: Panel) -> stat.Panel:
    made = (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))  # noqa: FBT003 # the SDK's way
        .text_mode(common_models.BigValueTextMode.VALUE_AND_NAME)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .color_mode(common_models.BigValueColorMode.VALUE)
    )
    if panel.good_text:
        texts = {"1": panel.good_text, "0": panel.bad_text}
        results = {value: models.ValueMappingResult(text=text) for value, text in texts.items()}
        made = made.mappings([models.ValueMap(options=results)])
    return made


def _thresholds(panel: Panel) -> builders.ThresholdsConfig:
    """Return from where on a number is red. What is 1 when it is well is red below."""
    first, second, edge = ("red", "green", 1.0) if panel.good_text else ("green", "red", panel.bad_from)
    steps = [models.Threshold(color=first, value=None), models.Threshold(color=second, value=edge)]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _target(letter: str, query: Query, *, is_instant: bool) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(letter).expr(query.text).legend_format(query.legend)
    return made.instant() if is_instant else made.range()
