"""What a job knows of the cluster that a pipeline reads: whether it is there, and whether records are gone.

Runs on the driver, in the pipeline's own thread and, before a batch, in Spark's.
"""

from __future__ import annotations

from collections.abc import Callable

from ducklake_core.observe import Recorder
from ducklake_core.retries import Patience
from ducklake_streaming.jobs.checkpoint import Checkpoint
from ducklake_streaming.jobs.settings import KafkaInput
from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.errors import BrokerRefused, BrokerUnavailable, TopicNotFound
from ducklake_streaming.kafka.losses import TopicState, find_losses, ids_of, losses_error, within_batch
from ducklake_streaming.kafka.places import Offsets
from ducklake_streaming.kafka.waiting import BrokerOutage

PING_SECONDS = 0.8  # a stop is not kept waiting for longer


class KafkaWatch:
    """Watches the topics of one stream."""

    def __init__(
        self,
        stream: str,
        kafka: KafkaInput,
        checkpoint: Checkpoint,
        is_stopped: Callable[[], bool],
        recorder: Recorder,
    ) -> None:
        self._stream = stream
        self._input = kafka
        self._checkpoint = checkpoint
        self._recorder = recorder
        self._cluster = Cluster(kafka.servers, kafka.options)
        patience = Patience(kafka.timeout.total_seconds(), is_stopped, recorder=recorder)
        self._outage = BrokerOutage(stream, kafka.servers, patience)
        self._known_ids: dict[str, str] = {}

    @property
    def counts_losses(self) -> bool:
        """Whether a batch is told what it will not find: where that is no error."""
        return not self._input.fail_on_data_loss

    @property
    def is_away(self) -> bool:
        """Whether no broker answered when last looked."""
        return self._outage.lasts

    @property
    def timeout_seconds(self) -> float:
        return self._input.timeout.total_seconds()

    def await_cluster(self) -> None:
        """Wait until a broker answers. Raises BrokerUnavailable at the deadline, or when the job is stopped."""
        self._outage.wait(lambda: self._cluster.check_reachable(PING_SECONDS))
        self._outage.end()

    def prepare(self) -> None:
        """See that what is to be read next is there; raise RecordsLost, or TopicNotFound before the first batch."""
        wanted = self._checkpoint.next_offsets()
        self._known_ids = self._checkpoint.topic_ids()
        state = self._outage.wait(lambda: self._state(wanted))
        if not wanted:
            self._require_topics(state)
        losses = find_losses(wanted, state, self._known_ids)
        if losses and self._input.fail_on_data_loss:
            raise losses_error(self._stream, losses)
        if not losses:  # else the first batch tells them, and needs to know what was
            self._remember(state)

    def look(self) -> None:
        """Look whether a broker answers and the topics are still the same.

        Raises BrokerUnavailable at the deadline, and RecordsLost for a topic that was deleted, if made again or not.
        """
        try:
            self._cluster.check_reachable(PING_SECONDS)
            now = ids_of(self._cluster.topics_that_exist(self._known_ids))
        except BrokerUnavailable as error:
            self._outage.begin(error)
            if self._outage.is_over_deadline:
                raise self._outage.error(error) from error
            return
        self._outage.end()
        if self._input.fail_on_data_loss and now != self._known_ids:
            wanted = self._checkpoint.next_offsets()
            if losses := find_losses(wanted, self._state(wanted), self._known_ids):
                raise losses_error(self._stream, losses)

    def warn_of_losses(self, starts: Offsets, ends: Offsets) -> None:
        """Say what a batch will not find. Where the cluster does not tell, the batch goes on all the same."""
        try:
            state = self._state(starts)
        except (BrokerRefused, BrokerUnavailable, TopicNotFound):
            return
        for loss in find_losses(starts, state, self._known_ids):
            end = ends.get((loss.topic, loss.partition), loss.wanted)
            if (found := within_batch(loss, end)) is not None:
                self._recorder.record(found.event(self._stream))
        self._remember(state)

    def explain(self, error: BaseException) -> BaseException:
        """Return what to tell in place of Spark's error about lost records: which, and what helps."""
        wanted = self._checkpoint.next_offsets()
        try:
            losses = find_losses(wanted, self._state(wanted), self._known_ids)
        except (BrokerRefused, BrokerUnavailable, TopicNotFound):
            return error
        if not losses:
            return error
        found = losses_error(self._stream, losses)
        found.__cause__ = error
        return found

    def _remember(self, state: TopicState) -> None:
        ids = ids_of(state.topics.values())
        if ids != self._known_ids:
            self._checkpoint.keep_topic_ids(ids)
            self._known_ids = ids

    def _state(self, wanted: Offsets) -> TopicState:
        """Ask for the topics of the input, and for those that are wanted; one that is not there is left out."""
        names = {topic for topic, _ in wanted}
        pattern = self._input.topic_pattern
        names |= set(self._input.topics if pattern is None else self._cluster.topic_names(pattern))
        topics = self._cluster.topics_that_exist(names)
        places = [place for topic in topics for place in topic.places]
        return TopicState(
            {topic.name: topic for topic in topics}, self._cluster.earliest(places), self._cluster.latest(places)
        )

    def _require_topics(self, state: TopicState) -> None:
        if self._input.topic_pattern is None:
            self._cluster.require_topics(self._input.topics, state.topics)
        elif not state.topics:
            raise TopicNotFound(
                f"no topic at {self._input.servers} matches topic_pattern = '{self._input.topic_pattern}'", topics=()
            )
