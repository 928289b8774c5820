"""Client telemetry of whole producers in virtual time: pushes and their times, refusals, lost answers, and the end."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any, Final

import pytest

from aioproducer import CloseReport, MetadataTimeoutError, Producer, StateError
from aioproducer.testing import Push
from tests.scenarios.support import TOPIC, scenario, send, stage
from tests.simulation.world import World

INTERVAL: Final = 10.0
APIS: Final = ("GetTelemetrySubscriptions", "PushTelemetry")
NAME: Final = "org.apache.kafka.producer."
# A push that is due is there so many seconds later.
SOON: Final = 0.5


def asked(world: World) -> list[str]:
    """The requests about metrics that the brokers have received, as the first letter of each: G or P."""
    return [request.api[0] for request in world.kafka.requests if request.api in APIS]


async def subscribed(
    world: World, *prefixes: str, interval: float = INTERVAL, **settings: Any
) -> Producer[Any, Any]:
    """A producer of a cluster that asks for these metrics (default: all)."""
    world.kafka.subscribe_metrics(prefixes or ["*"], round(interval * 1000))
    producer = await stage(world, metadata_max_age_ms=300_000, **settings)
    await producer.client_instance_id()
    return producer


async def first_push(world: World) -> Push:
    """Wait for the first push."""
    return await push_number(world, 1)


async def push_number(world: World, number: int) -> Push:
    """Wait for so many pushes; the last of them."""
    until = world.now + 2 * INTERVAL * (number + 2)
    while len(world.kafka.pushes) < number:
        assert world.now < until, f"{len(world.kafka.pushes)} pushes, {asked(world)}"
        await asyncio.sleep(0.05)
    return world.kafka.pushes[-1]


def total(world: World, name: str) -> float:
    """The sum of the differences of all pushes."""
    return sum(sum(push.values(NAME + name)) for push in world.kafka.pushes)


def no_warnings(world: World) -> None:
    assert world.lines("telemetry|metrics|Telemetry", logging.WARNING) == []


@scenario(runs=1, telemetry=True)
async def test_pushes_come_at_the_interval(world: World) -> None:
    """The first after half an interval to one and a half, the others an interval apart, the last at the end."""
    producer = await subscribed(world)
    begin = world.now
    assert producer.stats().connections[-1].connects == 1
    await first_push(world)
    assert 0.5 * INTERVAL - SOON <= world.now - begin <= 1.5 * INTERVAL + SOON
    for number in range(2, 6):
        before = world.now
        await push_number(world, number)
        assert world.now - before == pytest.approx(INTERVAL, abs=SOON)
    await producer.close()
    assert asked(world) == ["G", *"PPPPP", "P"]
    assert [push.terminating for push in world.kafka.pushes] == [False] * 5 + [True]
    assert {push.client_id for push in world.kafka.pushes} == {"aioproducer"}
    assert len(world.lines("the cluster asks for client metrics: all metrics every 10 s", logging.INFO)) == 1
    no_warnings(world)


@scenario(runs=1, telemetry=True)
async def test_sums_over_all_pushes_are_the_statistics(world: World) -> None:
    """Each record, failure and connection is in one push."""
    producer = await subscribed(world)
    instance = await producer.client_instance_id()
    for _ in range(4):
        await send(world, producer, 25)
        await producer.flush()
        await asyncio.sleep(INTERVAL)
    with world.kafka.faults.error("INVALID_RECORD", times=None):
        await asyncio.gather(*await send(world, producer, 3), return_exceptions=True)
    await producer.close()
    stats = producer.stats()
    assert (stats.records_acked, stats.records_failed) == (100, 3)
    assert total(world, "record.send.total") == total(world, "topic.record.send.total") == 100
    assert total(world, "record.error.total") == total(world, "topic.record.error.total") == 3
    assert total(world, "topic.byte.total") == stats.bytes_acked
    assert total(world, "connection.creation.total") == sum(each.connects for each in stats.connections)
    assert {push.instance_id for push in world.kafka.pushes} == {instance}
    assert {push.compression_type for push in world.kafka.pushes} == {4}
    assert {push.content.scopes[0][0] for push in world.kafka.pushes} == {"aioproducer"}
    assert {tuple(push.content.resource) for push in world.kafka.pushes} == {()}


@scenario(runs=1, telemetry=True)
async def test_the_resource_names_the_transactional_id_and_the_rack(world: World) -> None:
    """Where they are set; nothing else is among its attributes."""
    producer = await subscribed(world, transactional_id="orders", client_rack="a1")
    await first_push(world)
    await producer.close()
    assert world.kafka.pushes[0].content.resource == {"transactional_id": "orders", "client_rack": "a1"}


@scenario(runs=1, telemetry=True)
async def test_the_resource_follows_the_transactional_id(world: World) -> None:
    """The metrics after `init_transactions()` with another id are those of that one."""
    producer = await subscribed(world, transactional_id="orders")
    await first_push(world)
    await producer.init_transactions("invoices")
    await push_number(world, 2)
    await producer.close()
    ids = [push.content.resource for push in world.kafka.pushes]
    assert ids == [{"transactional_id": "orders"}] + 2 * [{"transactional_id": "invoices"}]


@scenario(runs=1, telemetry=True)
async def test_the_ratio_without_compression(world: World) -> None:
    """It is 1, as in the metrics of Java; in an interval without a batch there is none."""
    producer = await subscribed(world)
    await first_push(world)
    await send(world, producer)
    await push_number(world, 2)
    await push_number(world, 3)
    name = f"{NAME}compression.rate.avg"
    assert [push.values(name) for push in world.kafka.pushes] == [[], [1.0], []]


@scenario(runs=1, telemetry=True)
async def test_the_wall_clock_is_set_back(world: World) -> None:
    """The interval keeps its length, and no value ends before it began: receivers would refuse it."""
    producer = await subscribed(world)
    producer.register_metric("mine.sum", lambda: 7, kind="sum")
    await first_push(world)
    world.loop.set_wall(-3_600_000)
    await push_number(world, 3)
    for push in world.kafka.pushes[1:]:
        (lasted,) = {metric.time_ns - metric.start_ns for metric in push.metrics}
        assert lasted / 1e9 == pytest.approx(INTERVAL, abs=SOON)
    await producer.close()
    no_warnings(world)


@scenario(runs=1, telemetry=True)
async def test_metrics_are_selected_by_prefix(world: World) -> None:
    """Only those whose names begin as requested are pushed, of the application as well."""
    producer = await subscribed(world, NAME + "record.", "mine.a")
    for name in ("mine.a", "mine.b"):
        producer.register_metric(name, lambda: 1)
    names = {metric.name for metric in (await first_push(world)).metrics}
    assert names == {f"{NAME}record.{one}.total" for one in ("send", "error", "retry")} | {"mine.a"}


@scenario(runs=1, telemetry=True)
async def test_nothing_requested(world: World) -> None:
    """The producer has an id and asks again after each interval; it pushes nothing, not even at the end."""
    producer = await stage(world, metadata_max_age_ms=300_000)
    assert isinstance(await producer.client_instance_id(), uuid.UUID)
    await asyncio.sleep(700)
    assert asked(world) == ["G", "G", "G"]
    world.kafka.subscribe_metrics(["*"], 10_000)
    await asyncio.sleep(300)
    assert asked(world)[3:5] == ["G", "P"]
    assert len({push.instance_id for push in world.kafka.pushes}) == 1
    world.kafka.subscribe_metrics([], 10_000)
    await asyncio.sleep(20)
    count = len(world.kafka.pushes)
    await producer.close()
    assert len(world.kafka.pushes) == count
    no_warnings(world)


@scenario(runs=1)
async def test_a_cluster_without_a_receiver_is_asked_nothing(world: World) -> None:
    """No request, no task, no id."""
    producer = await stage(world)
    assert await producer.client_instance_id() is None
    assert not [task for task in asyncio.all_tasks() if "telemetry" in task.get_name()]
    await asyncio.sleep(400)
    await producer.close()
    assert asked(world) == []


@scenario(runs=1, telemetry=True)
async def test_turned_off(world: World) -> None:
    """enable_metrics_push=False asks nothing, whatever the cluster wants."""
    world.kafka.subscribe_metrics(["*"], 1_000)
    producer = await stage(world, enable_metrics_push=False)
    producer.register_metric("a", lambda: 1)
    assert await producer.client_instance_id() is None
    await asyncio.sleep(30)
    await producer.close()
    assert asked(world) == []


@scenario(runs=1, telemetry=True)
async def test_a_producer_that_is_started_again_pushes_nothing_twice(world: World) -> None:
    """Its counters go on; a push has their growth since the last one."""
    producer = await subscribed(world)
    await send(world, producer, 5)
    await producer.flush()
    await first_push(world)
    assert producer._engine is not None
    producer._engine.crash(RuntimeError("a bug"))
    await asyncio.sleep(1)
    await producer.start(wait_ready=5)
    await producer.client_instance_id()
    await send(world, producer, 4)
    await producer.close()
    assert producer.stats().records_acked == 9
    assert [sum(push.values(NAME + "record.send.total")) for push in world.kafka.pushes] == [5, 4]
    connects = sum(each.connects for each in producer.stats().connections)
    assert total(world, "connection.creation.total") == connects


# -- refusals and losses


@scenario(runs=1, telemetry=True)
async def test_another_subscription_is_asked_for_at_once(world: World) -> None:
    """A push under the former subscription is refused; its values come with the next one."""
    producer = await subscribed(world)
    await send(world, producer, 5)
    await producer.flush()
    world.kafka.subscribe_metrics([NAME], 20_000)
    await asyncio.sleep(50)
    assert asked(world)[:4] == ["G", "P", "G", "P"]
    await producer.close()
    assert total(world, "record.send.total") == 5
    assert len(world.lines("the cluster asks for client metrics", logging.INFO)) == 2


@pytest.mark.parametrize("error", ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"])
@scenario(runs=1, telemetry=True)
async def test_the_subscription_is_asked_for_once_a_second_at_most(world: World, error: str) -> None:
    """However often a push is refused."""
    producer = await subscribed(world, interval=0.1)
    world.kafka.faults.error(error, api="PushTelemetry", times=None)
    await asyncio.sleep(5)
    assert asked(world).count("G") <= 7
    await producer.close()


@pytest.mark.parametrize("error", ["TELEMETRY_TOO_LARGE", "THROTTLING_QUOTA_EXCEEDED"])
@scenario(runs=1, telemetry=True)
async def test_a_refusal_that_passes(world: World, error: str) -> None:
    """The next push comes after the interval, with the values of the refused one."""
    producer = await subscribed(world)
    producer.register_metric("mine", lambda: 7, kind="sum")
    await send(world, producer, 5)
    await producer.flush()
    world.kafka.faults.error(error, api="PushTelemetry", times=2)
    push = await first_push(world)
    assert asked(world) == list("GPPP")
    assert push.values(NAME + "record.send.total") == [5]
    assert push.values(NAME + "record.queue.time.max") != []
    assert push.values("mine") == [7]
    await producer.close()
    assert total(world, "record.send.total") == 5
    no_warnings(world)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("error", ["INVALID_REQUEST", "INVALID_RECORD", "UNSUPPORTED_VERSION", 12345])
@scenario(runs=1, telemetry=True)
async def test_any_other_error_ends_it(world: World, api: str, error: Any) -> None:
    """Nothing more is asked or pushed; the producer goes on."""
    world.kafka.subscribe_metrics(["*"], 1_000)
    world.kafka.faults.error(error, api=api)
    producer = await stage(world)
    await asyncio.sleep(30)
    assert asked(world) == (["G"] if api == APIS[0] else ["G", "P"])
    assert (await producer.client_instance_id() is None) is (api == APIS[0])
    await send(world, producer, 5)
    await producer.close()
    assert asked(world) == (["G"] if api == APIS[0] else ["G", "P"])
    assert world.kafka.pushes == ()
    no_warnings(world)
    assert world.lines(f"the broker refused {api}") != []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "fault", ["drop_answer", "silence", "delay", "cut", "cut_before", "cut_answer", "rewrite"]
)
@scenario(runs=1, telemetry=True)
async def test_a_lost_answer(world: World, api: str, fault: str) -> None:
    """The same request comes again after the interval. The broker does not count as unreachable, and records go on."""
    world.kafka.subscribe_metrics(["*"], 10_000)
    faults = world.kafka.faults
    if fault == "cut_before":
        faults.cut(api=api, before=True)
    elif fault == "cut_answer":
        faults.cut_answer(6, api=api)
    elif fault == "rewrite":
        # The answer ends within its fields.
        faults.rewrite(lambda frame: (5).to_bytes(4, "big") + frame[4:9], api=api)
    elif fault == "cut":
        faults.cut(api=api)
    else:
        getattr(faults, fault)(api=api, times=1)
    producer = await stage(world)
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert producer.health().brokers_unreachable == 0
    await send(world, producer, 5)
    await producer.flush()
    await asyncio.sleep(330)
    assert len(world.kafka.pushes) > 1
    assert asked(world)[:3] == (["G", "G", "P"] if api == APIS[0] else ["G", "P", "P"])
    await producer.close()
    assert world.lines(level=logging.WARNING) == []


@scenario(runs=1, telemetry=True)
async def test_nothing_is_pushed_twice(world: World) -> None:
    """A push whose answer is lost may have been taken: its values are not in the next one."""
    producer = await subscribed(world)
    await send(world, producer, 5)
    await producer.flush()
    world.kafka.faults.drop_answer(api="PushTelemetry")
    await push_number(world, 2)
    await producer.close()
    assert total(world, "record.send.total") == 5


@scenario(runs=1, telemetry=True)
async def test_the_broker_goes_away(world: World) -> None:
    """The next broker gets the pushes, under the same id."""
    producer = await subscribed(world)
    former = (await first_push(world)).broker
    await world.kafka.faults.stop_broker(former)
    await send(world, producer, 6)
    await producer.flush()
    push = await push_number(world, 4)
    assert push.broker != former
    await producer.close()
    assert len({push.instance_id for push in world.kafka.pushes}) == 1
    assert total(world, "record.send.total") == 6


@scenario(runs=1, telemetry=True)
async def test_no_broker_is_dialed_for_a_push(world: World) -> None:
    """While all brokers are down, nothing is pushed, and no connection is opened for it."""
    producer = await subscribed(world, connections_max_idle_ms=-1)
    await first_push(world)
    connects = producer.stats().connections[-1].connects
    for broker in world.kafka.brokers:
        await world.kafka.faults.stop_broker(broker.id)
    await asyncio.sleep(30)
    for broker in world.kafka.brokers:
        await world.kafka.faults.start_broker(broker.id)
    await push_number(world, 3)
    assert producer.stats().connections[-1].connects == connects + 1
    await producer.close()


@scenario(runs=1, telemetry=True, telemetry_max_bytes=600)
async def test_metrics_of_the_application_are_left_out_first(world: World) -> None:
    """They come again when there is room; the log has one line about it."""
    producer = await subscribed(world, NAME + "record.", "mine")
    names = [f"mine.{world.rng.randbytes(20).hex()}" for _ in range(40)]
    for name in names:
        producer.register_metric(name, lambda: 3, kind="sum")
    push = await push_number(world, 2)
    assert [metric.name for metric in push.metrics if "mine" in metric.name] == []
    assert push.metrics != ()
    for name in names[1:]:
        producer.unregister_metric(name)
    assert (await push_number(world, 3)).values(names[0]) == [3]
    await producer.close()
    assert len(world.lines("the client metrics are longer than the 600 bytes", logging.WARNING)) == 1


@scenario(runs=1, telemetry=True, telemetry_max_bytes=10)
async def test_a_push_that_is_too_long_is_dropped(world: World) -> None:
    """Nothing is sent, and the log has one line about it."""
    producer = await subscribed(world)
    await asyncio.sleep(50)
    await producer.close()
    assert asked(world) == ["G"]
    assert len(world.lines("nothing is pushed", logging.WARNING)) == 1


# -- metrics of the application


@scenario(runs=1, telemetry=True)
async def test_functions_that_misbehave(world: World) -> None:
    """Each is left out and logged once; the others are pushed, and the producer goes on."""
    producer = await subscribed(world)
    counts = iter((5, 3, 4, 9, 9, 9, 9, 9))

    def slow() -> float:
        world.loop.stall(0.02)
        return 1

    def reenters() -> float:
        producer.unregister_metric("mine.leaves")
        producer.send_nowait(TOPIC, b"from a metric", partition=0)
        world.forgotten.add(TOPIC)
        return 2

    def raises() -> float:
        raise RuntimeError("no")

    def exits() -> float:
        raise asyncio.CancelledError

    for name, read in {"raises": raises, "slow": slow, "exits": exits, "reenters": reenters}.items():
        producer.register_metric(f"mine.{name}", read)
    producer.register_metric("mine.leaves", lambda: 1)
    producer.register_metric("mine.count", lambda: next(counts), kind="sum")
    producer.register_metric("mine.text", lambda: "1")  # type: ignore[arg-type,return-value]
    await push_number(world, 4)
    found = [
        {metric.name: metric.value for metric in push.metrics if metric.name.startswith("mine.")}
        for push in world.kafka.pushes
    ]
    assert found[0] == {"mine.reenters": 2.0, "mine.leaves": 1.0, "mine.count": 5}
    assert found[1:] == [
        {"mine.reenters": 2.0},
        {"mine.reenters": 2.0, "mine.count": 1},
        {"mine.reenters": 2.0, "mine.count": 5},
    ]
    for name in ("raises", "slow", "exits", "count", "text"):
        assert len(world.lines(f"the metric mine.{name} is left out", logging.WARNING)) == 1
    assert producer.health().state == "running"


# -- beside the requests of others


@scenario(runs=3, telemetry=True)
async def test_a_receiver_that_hangs_delays_no_record(world: World) -> None:
    """The first request about metrics waits until the topics are known, although both go over one connection."""
    world.kafka.faults.delay(api="GetTelemetrySubscriptions", times=None)
    begin = world.now
    producer = await stage(world)
    await asyncio.gather(*await send(world, producer, 5))
    assert world.now - begin < 1.0
    await asyncio.sleep(10)
    assert asked(world)[:1] == ["G"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", ["delay", "drop_answer", "silence"])
@scenario(runs=2, telemetry=True)
async def test_a_receiver_that_hangs_delays_no_metadata(world: World, api: str, fault: str) -> None:
    """A request for metadata goes over another connection, also when the telemetry has given its own one up."""
    world.kafka.subscribe_metrics(["*"], 10_000)
    getattr(world.kafka.faults, fault)(api=api, times=None)
    producer = await stage(world)
    await asyncio.sleep(2 if api == APIS[0] else 1.5 * INTERVAL + 2 * SOON)
    assert asked(world)[-1] == api[0]
    for number in range(8):
        topic = f"later-{number}"
        world.kafka.create_topic(topic, 1)
        begin = world.now
        await producer.partitions_for(topic)
        await asyncio.gather(*await send(world, producer, 2))
        assert world.now - begin < SOON
        health = producer.health()
        assert (health.brokers_unreachable, health.ready, health.problems) == (0, True, ())
        await asyncio.sleep(7)
    await producer.close()
    assert world.lines(level=logging.WARNING) == []


@pytest.mark.parametrize("api", APIS)
@scenario(runs=2, telemetry=True)
async def test_throttled_metrics_delay_no_metadata(world: World, api: str) -> None:
    """A broker that throttles a client reads nothing from the connection: metadata takes another one, metrics wait."""
    world.kafka.subscribe_metrics(["*"], 10_000)
    throttled = world.kafka.faults.throttle(100_000, api=api, times=1)
    producer = await stage(world)
    await asyncio.sleep(2 if api == APIS[0] else 1.5 * INTERVAL + SOON)
    assert throttled.hits == 1
    before, since = len(asked(world)), world.now
    world.kafka.create_topic("later", 1)
    await producer.partitions_for("later")
    assert world.now - since < SOON
    health = producer.health()
    assert (health.brokers_unreachable, health.ready, health.problems) == (0, True, ())
    assert producer.stats().connections[-1].throttle_seconds == pytest.approx(100)
    await asyncio.sleep(80)
    assert len(asked(world)) == before
    await asyncio.sleep(25)
    assert len(asked(world)) > before
    await producer.close()
    assert world.lines(level=logging.WARNING) == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request", b"\x00\x00\x00\x05\xff\xff\xff\xff\x00"])
@scenario(runs=2, telemetry=True)
async def test_garbage_in_place_of_an_answer(world: World, api: str, answer: bytes) -> None:
    """The connection ends, and no broker counts as unreachable for a moment; no pause before the next attempt grows."""
    world.kafka.subscribe_metrics(["*"], 1_000)
    world.kafka.faults.rewrite(lambda _: answer, api=api, times=None)
    producer = await stage(world, reconnect_backoff_ms=100, reconnect_backoff_max_ms=20_000)
    for _ in range(600):
        await asyncio.sleep(0.1)
        health = producer.health()
        assert (health.brokers_unreachable, health.ready, health.problems, health.last_error) == (
            0,
            True,
            (),
            None,
        )
    assert producer._engine is not None
    engine, now = producer._engine, world.now
    nodes = engine.view.brokers.nodes
    assert max(engine.addresses.free_at((node.host, node.port)) for node in nodes) <= now + SOON
    begin = world.now
    world.kafka.create_topic("later", 1)
    await producer.partitions_for("later")
    await asyncio.gather(*await send(world, producer, 5))
    assert world.now - begin < SOON
    await producer.close()
    assert world.lines(level=logging.WARNING) == []


# -- the id


@scenario(runs=1, telemetry=True)
async def test_the_id_before_there_is_one(world: World) -> None:
    """The call waits for a broker, at most for its time limit; no other call waits for it."""
    producer = world.producer()
    with pytest.raises(StateError):
        await producer.client_instance_id()
    answer = world.kafka.faults.delay(api="GetTelemetrySubscriptions")
    await producer.start()
    with pytest.raises(MetadataTimeoutError, match="no broker has given a client instance id"):
        await producer.client_instance_id(1.0)
    waiting = [asyncio.create_task(producer.client_instance_id(20.0)) for _ in range(3)]
    await asyncio.sleep(0.1)
    waiting[0].cancel()
    answer.release()
    first, second = await asyncio.gather(*waiting[1:])
    assert first == second == await producer.client_instance_id(0.1)
    assert first is not None
    await producer.close()
    with pytest.raises(StateError):
        await producer.client_instance_id()


@scenario(runs=1, telemetry=True)
async def test_the_id_of_a_producer_that_closes_meanwhile(world: World) -> None:
    """The call ends with the producer."""
    producer = world.producer()
    world.kafka.faults.silence(api="GetTelemetrySubscriptions")
    await producer.start(wait_ready=5)
    waiting = asyncio.create_task(producer.client_instance_id(20.0))
    await asyncio.sleep(0.1)
    await producer.close()
    with pytest.raises(StateError):
        await waiting


# -- the end


@scenario(runs=1, telemetry=True)
async def test_the_last_push_comes_after_the_deliveries(world: World) -> None:
    """It has all records, also those that close() has sent."""
    producer = await subscribed(world, linger_ms=5_000)
    deliveries = await send(world, producer, 7)
    begin = world.now
    await producer.close()
    assert all(delivery.done() for delivery in deliveries)
    assert world.now - begin < 1.0
    (push,) = world.kafka.pushes
    assert (push.terminating, push.values(NAME + "record.send.total")) == (True, [7])


@pytest.mark.parametrize("fault", ["silence", "drop_answer", "delay", "cut"])
@scenario(runs=1, telemetry=True)
async def test_the_last_push_takes_a_second_at_most(world: World, fault: str) -> None:
    """Whatever the broker does; every record has its outcome before."""
    producer = await subscribed(world)
    await send(world, producer, 3)
    await producer.flush()
    getattr(world.kafka.faults, fault)(api="PushTelemetry", times=None)
    begin = world.now
    assert await producer.close() == CloseReport()
    assert world.now - begin <= 1.0 + SOON
    no_warnings(world)


@scenario(runs=1, telemetry=True)
async def test_the_last_push_keeps_the_limit_of_close(world: World) -> None:
    """close(0.2) returns after 0.2 s, and a second, shorter call ends the first."""
    producer = await subscribed(world)
    world.kafka.faults.silence(api="PushTelemetry", times=None)
    begin = world.now
    await producer.close(0.2)
    assert world.now - begin <= 0.3
    other = await stage_again(world)
    begin = world.now
    first = asyncio.create_task(other.close())
    await asyncio.sleep(0.1)
    await other.close(0.1)
    await first
    assert world.now - begin <= 0.5


async def stage_again(world: World) -> Producer[Any, Any]:
    """A second producer of the same cluster."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    await producer.client_instance_id()
    await asyncio.sleep(0.1)
    return producer


@pytest.mark.parametrize("phase", ["asking", "pushing", "waiting", "cancelled"])
@scenario(runs=1, telemetry=True)
async def test_closing_in_each_phase(world: World, phase: str) -> None:
    """While a request is in flight, between two of them, and where close() is cancelled."""
    world.kafka.subscribe_metrics(["*"], 10_000)
    if phase == "asking":
        world.kafka.faults.delay(api="GetTelemetrySubscriptions")
    if phase == "pushing":
        pushing = world.kafka.faults.delay(0.3, api="PushTelemetry", before=True)
    if phase == "cancelled":
        world.kafka.faults.silence(api="PushTelemetry", times=1)
    producer = await stage(world)
    await asyncio.sleep(0.1)
    if phase == "pushing":
        await pushing.reached()
    closing = asyncio.create_task(producer.close())
    if phase == "cancelled":
        await asyncio.sleep(0.1)
        closing.cancel()
        await asyncio.wait([closing])
    else:
        await closing
    assert producer.health().state == "closed"
    expected = {"asking": ["G"], "pushing": ["G", "P", "P"], "waiting": ["G", "P"]}
    if phase in expected:
        assert asked(world) == expected[phase]
    no_warnings(world)


@scenario(runs=1, telemetry=True)
async def test_a_producer_that_fails_pushes_no_more(world: World) -> None:
    """Its task ends with the others."""
    producer = await subscribed(world)
    assert producer._engine is not None
    producer._engine.crash(RuntimeError("a bug"))
    await asyncio.sleep(50)
    assert producer.health().state == "failed"
    assert asked(world) == ["G"]
