"""What can be wrong with a Kafka cluster, beside core's tree of errors. Raised wherever a cluster is asked. No Spark.

BrokerUnavailable (transient): no broker answers. The others are terminal: BrokerRefused (it does not let us in),
TopicNotFound, RecordsLost (what a stream must read next is gone).
"""

from __future__ import annotations

from ducklake_core.errors import TerminalError, TransientError


class BrokerUnavailable(TransientError):
    """No broker of the cluster answers, or not in time."""


class BrokerRefused(TerminalError):
    """The cluster does not let its user in, or not do what was asked for."""


class TopicNotFound(TerminalError):
    """There is no such topic."""


class RecordsLost(TerminalError):
    """Records that a stream must read next are no longer in their topic; the facts name what is lost."""
