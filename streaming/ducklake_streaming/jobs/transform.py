"""The SQL of a pipeline, run on each batch, and the hidden columns that the sink needs. Runs on the driver.

Hidden are the route, where it names what the SQL does not select, and the record that a row was made from, which is
read only for bad rows. Both need a SELECT whose rows are each made of one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from ducklake_core.errors import InvalidInput
from ducklake_sinks.routes import COMPUTED_ROUTE
from ducklake_streaming.jobs.input_view import RECORD, VIEW, hidden_record
from ducklake_streaming.jobs.row_wise_sql import parse_row_wise

_ROW_WISE_NODES = frozenset({"Project", "Filter", "SubqueryAlias", "View"})


class Transform:
    """What becomes of the rows of each batch. `sql` None: the columns that are stored are given with the rows.

    `route`: a SQL expression of the rows that names the table of each. `routes_input`: it is one of the view's columns;
    else it is tried with those of the rows first.
    """

    def __init__(
        self, pipeline_name: str, sql: str | None, route: str | None, *, routes_input: bool | None = None
    ) -> None:
        self._pipeline_name = pipeline_name
        self._sql = sql
        self._route = route
        self._row_wise = None if sql is None else parse_row_wise(sql)
        self._is_checked = sql is None  # whether Spark was asked, too
        self._has_record = False  # whether the SQL selects the struct `_record`, which is not stored
        self._routes_input = routes_input  # None: not known yet

    @property
    def is_plain(self) -> bool:
        """Whether rows are stored as they are, and nothing is hidden in them."""
        return self._sql is None and self._route is None

    def is_row_wise(self) -> bool:
        """Tell whether each row is made of one record, and all of them are read."""
        return self._sql is None or self._row_wise is not None

    def apply(self, rows: DataFrame, stored: Sequence[str]) -> DataFrame:
        """Return what is to be stored of a batch's rows. `stored`: their columns that are, where there is no SQL."""
        try:
            return self._routed(rows, stored)
        except (AnalysisException, ParseException) as error:
            raise self._refusal("transform.sql", self._sql, error) from error

    def with_records(self, rows: DataFrame, stored: Sequence[str]) -> DataFrame:
        """Return the same rows, each with the record that it was made from as the last column."""
        hidden = [self._hidden_route()] if self._routes_input else []
        found = self._select(rows, stored, [*hidden, hidden_record()])
        if self._route is not None and not self._routes_input:
            found = found.selectExpr(f"{self._route_expression()} AS {COMPUTED_ROUTE}", "*")
        return found

    def _routed(self, rows: DataFrame, stored: Sequence[str]) -> DataFrame:
        if self._route is None:
            return self._select(rows, stored, [])
        if not self._routes_input:
            found = self._select(rows, stored, [])
            try:
                routed = found.selectExpr("*", f"{self._route_expression()} AS {COMPUTED_ROUTE}")
            except (AnalysisException, ParseException) as error:
                self._refuse_unrouted(error)
            else:
                self._routes_input = False
                return routed
        self._routes_input = True
        try:
            return self._select(rows, stored, [self._hidden_route()])
        except (AnalysisException, ParseException) as error:
            raise self._refusal("sink.route", self._route, error) from error

    def _refuse_unrouted(self, error: AnalysisException | ParseException) -> None:
        """Raise where the route does not fit the transformed rows, and cannot be asked of their records, either."""
        if self._routes_input is False or not self.is_row_wise():
            raise self._refusal("sink.route", self._route, error) from error

    def _select(self, rows: DataFrame, stored: Sequence[str], hidden: Sequence[str]) -> DataFrame:
        if self._sql is None:
            return rows.selectExpr(*stored, *hidden)
        rows.createOrReplaceTempView(VIEW)
        sql = self._sql if self._row_wise is None else self._row_wise.with_columns(hidden)
        found = rows.sparkSession.sql(sql)
        if not self._is_checked:
            self._check(found)
        return found.drop(RECORD) if self._has_record else found

    def _check(self, found: DataFrame) -> None:
        """Ask Spark's own plan, once: it knows functions that take rows together, or make several of one."""
        self._has_record = RECORD in found.columns
        if not _is_row_wise(found):
            self._row_wise = None
        self._is_checked = True

    def _route_expression(self) -> str:
        return f"CAST(({self._route}) AS STRING)"

    def _hidden_route(self) -> str:
        return f"{self._route_expression()} AS {COMPUTED_ROUTE}"

    def _refusal(self, key: str, sql: str | None, error: AnalysisException | ParseException) -> InvalidInput:
        told = str(error).strip().splitlines()[0]
        return InvalidInput(f"pipeline '{self._pipeline_name}': {key} cannot be run: {told} (it is {sql!r})")


def _is_row_wise(frame: DataFrame) -> bool:
    """Tell whether there is nothing but projections and filters between the rows and the view that they are of."""
    node: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 # Any: Spark's own plan
    while node.nodeName() in _ROW_WISE_NODES:
        if node.nodeName() == "SubqueryAlias" and node.alias() == VIEW:
            return True
        node = node.children().head()
    return False
