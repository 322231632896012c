"""What a job file says of metrics: where they are served, and how often the catalog is asked. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import Duration, Flag, OptionalText, Text, checked, count, setting
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.maintenance_settings import Every


def parse_port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65_535:
        raise ValueError("a number of a port, up to 65535; 0 is any that is free")
    return value


Port: TypeAlias = Annotated[int, *checked(parse_port, {"type": "integer", "minimum": 0, "maximum": 65_535})]
TableCount: TypeAlias = Annotated[int, *checked(count, {"type": "integer", "minimum": 1})]


class MetricsSettings(Keys):
    """`[metrics]`: where Prometheus and the probes of an orchestrator may ask; without this table, nowhere."""

    host: Text = setting('the address to listen at; `"0.0.0.0"` is all of the machine', default="127.0.0.1")
    port: Port = setting("the port", default=9464)
    poll: Flag = setting("ask the catalog how much there is, by a connection of its own", default=True)
    every: Every = setting(
        "how long to wait from one question to the next", default=timedelta(seconds=30), shown='`"30s"`'
    )
    max_tables: TableCount = setting("so many tables have series of their own; all others are `other`", default=100)
    stuck_after: Duration = setting(
        "a query that tells nothing for so long, and for three triggers, is not alive; longer than your longest batch",
        default=timedelta(minutes=10),
        shown='`"10m"`',
    )
    certificate: OptionalText = setting("a file in PEM with the server's certificate: then it speaks TLS", default=None)
    key: OptionalText = setting("the file of its key; default: that of the certificate", default=None)
    client_ca: OptionalText = setting(
        "a file in PEM: only clients with a certificate of these authorities are answered", default=None
    )

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        for key in ("key", "client_ca"):
            if right.get(key) is not None and right.get("certificate") is None:
                yield f"{key} needs certificate, the server's own"

    def served_at(self, place: str) -> MetricsSettings:
        """Return the same, served at another `host:port`. Raises InvalidInput."""
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise InvalidInput(f"metrics cannot be served at '{place}': write host:port, such as 0.0.0.0:9464")
        return self.model_copy(update={"host": host.strip("[]"), "port": int(port)})
