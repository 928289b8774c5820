"""Nodes of a real Kafka of three are killed, paused, stopped, and lose their leaderships while 40 tasks send.

Two producers suffer the same faults: a patient one, of which every record must be acknowledged, and a hasty one whose
deadlines pass during the longer faults. A foreign client reads all records back, and the judge compares them. Once in
`make test`; ten times, and with pauses of up to 45 seconds, with `AIOPRODUCER_EFFORT=proof`.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from aioproducer import Outcome
from tests.effort import PROOF
from tests.kafka.faults.gate import Gate
from tests.kafka.faults.load import PARTITIONS, Load
from tests.kafka.faults.report import Report
from tests.kafka.faults.run import REQUEST_TIMEOUT, Run
from tests.seeds import seed_of
from tools.kafka_cluster import KafkaCluster

ROUNDS: Final = range(10 if PROOF else 1)
NODES: Final = (1, 2, 3)
_SEED: Final = seed_of(__name__)
_LEAST_SPEED: Final = 0.6
"""The part of the speed that is left while one of three nodes is down. Other work of the machine makes a sample smaller, never
larger: only if all samples are below this part, the producer is slow."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
rounds = pytest.mark.parametrize("round_", ROUNDS)

Start = Callable[..., Run]
Place = tuple[Load, int]
"""A partition of one of the two topics."""


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """The results of all runs together; printed after the last one."""
    report = Report(_SEED)
    yield report
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\nfaults on a real Kafka of three nodes:\n{report.write()}")


@pytest.fixture
def run(faulty_nodes: KafkaCluster, report: Report) -> Start:
    """Begins a run by its name and the number of its round."""
    return lambda name, round_, **options: Run(
        faulty_nodes, f"{name}-{round_}", _SEED + round_, report, **options
    )


@rounds
async def test_d01_leaders_killed_with_five_requests_in_flight(
    run: Start, round_: int, report: Report
) -> None:
    """D01: SIGKILL and a restart: no record lost, doubled or out of order; acked in 3 s, and at least 60 % of the speed."""
    async with run("D01", round_) as faults:
        for victim in faults.rng.sample(NODES, 3 if PROOF else 1):
            normal = await _full_speed(faults)
            await faults.kill_in_full_flight(victim)
            await faults.recovered("SIGKILL, others take over")
            reduced = await _full_speed(faults, enough=_LEAST_SPEED * normal, samples=8)
            faults.restart(victim)
            await faults.recovered("SIGKILL, back again")
            await faults.until_whole()
            report.rates[f"round {round_}, node {victim} down"] = round(reduced / normal, 3)
            assert reduced >= _LEAST_SPEED * normal, (reduced, normal)
    faults.check()


@rounds
async def test_d02_a_clean_stop_and_leader_moves_fail_nothing(run: Start, round_: int) -> None:
    """D02: while leaders are moved and an operator shuts a node down, no record fails."""
    async with run("D02", round_) as faults:
        moved = 0
        for _ in range(4):
            moved += await faults.move_leaders()
            await faults.recovered("leader moves")
        victim = faults.rng.choice(NODES)
        await faults.stop(victim)
        await faults.recovered("clean stop")
        faults.restart(victim)
        assert moved > 0
    faults.check()
    faults.check_hasty_too()


@rounds
async def test_d03_a_rolling_restart_fails_nothing(run: Start, round_: int) -> None:
    """D03: all nodes are stopped cleanly and started again, one after the other, and no record fails."""
    async with run("D03", round_) as faults:
        for node in NODES:
            await faults.stop(node)
            faults.restart(node)
            await faults.recovered("rolling restart")
            await faults.until_whole()
    faults.check()
    faults.check_hasty_too()


@rounds
async def test_d04_two_of_three_nodes_paused_beyond_the_deadlines(run: Start, round_: int) -> None:
    """D04: SIGSTOP of two nodes (librdkafka 4134), longer than the hasty deadlines: UNKNOWN only after them."""
    async with run("D04", round_) as faults:
        for seconds in (45.0, 3.0, 45.0) if PROOF else (12.0,):
            await faults.pause(seconds, *faults.rng.sample(NODES, 2))
            await faults.recovered(f"SIGSTOP of two for {seconds:g} s", REQUEST_TIMEOUT)
    faults.check()
    assert set(faults.hasty.outcomes) > {Outcome.ACKED}, "the pauses were not longer than the deadlines"


@rounds
async def test_d04_one_node_paused_beyond_the_request_timeout(run: Start, round_: int) -> None:
    """D04: SIGSTOP of one node: others lead while its requests still wait for an answer, which comes late."""
    async with run("D04-one", round_) as faults:
        victim = faults.rng.choice(NODES)
        pause = asyncio.create_task(faults.pause(faults.rng.uniform(5, 8) * (4 if PROOF else 1), victim))
        await faults.until(lambda: faults.kafka.node(victim).paused)
        await faults.recovered("SIGSTOP of one, others take over", REQUEST_TIMEOUT)
        await pause
        await faults.recovered("SIGSTOP of one, back again", REQUEST_TIMEOUT)
    faults.check()


@rounds
async def test_d11_too_few_in_sync_copies_for_a_while(run: Start, round_: int) -> None:
    """D11: with a node gone, partitions that need three in-sync replicas refuse records; then they recover."""
    async with run("D11", round_, min_in_sync=3) as faults:
        victim = faults.rng.choice(NODES)
        faults.kill(victim)
        acked = sum(faults.patient.acked.values())
        await faults.until(lambda: faults.patient.producer.stats().waiting_calls)
        faults.restart(victim)
        await faults.recovered("in-sync copies below their minimum")
        assert sum(faults.patient.acked.values()) > acked
    faults.check()


@rounds
async def test_d13_all_nodes_gone_and_back(run: Start, round_: int) -> None:
    """D13: with no broker left, records end at their deadlines; when the brokers are back, sending works again."""
    async with run("D13", round_) as faults:
        faults.kill(*NODES)
        failed = faults.hasty.outcomes
        await faults.until(lambda: failed.total() > failed[Outcome.ACKED])
        faults.restart(*NODES)
        await faults.recovered("all nodes killed and restarted")
    faults.check()


@rounds
async def test_d14_a_network_partition_between_us_and_one_broker(
    run: Start, round_: int, faulty_nodes: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D14: partitions of the other brokers lose at most a tenth of their throughput while one cannot be reached."""
    cut_off = random.Random(_SEED + round_).choice(NODES)
    async with Gate(faulty_nodes.node(cut_off).ports.broker) as gate:
        gate.intercept_dialing(monkeypatch)
        async with run("D14", round_, roaming=False) as faults:
            live = await _led_by_others(faults, cut_off)
            normal = await _rate(live, 4.0)
            gate.shut()
            await _full_speed(faults)  # records that cannot be sent take all the memory that they may have
            dark = await _best_rate(live, 2 * REQUEST_TIMEOUT, enough=0.9 * normal)
            gate.open()
            await faults.noticed("network partition", REQUEST_TIMEOUT)
            assert dark >= 0.9 * normal, (dark, normal)
        faults.check()


async def _led_by_others(faults: Run, node_id: int) -> list[Place]:
    """The partitions of both topics that another node leads."""
    places = []
    for load in faults.loads:
        leaders = await asyncio.to_thread(faults.kafka.leaders, load.plan.topic)
        places += [(load, index) for index, leader in enumerate(leaders) if leader != node_id]
    return places


async def _full_speed(faults: Run, *, enough: float = math.inf, samples: int = 3) -> float:
    """Records acknowledged in a second without a pace."""
    everywhere = [(load, index) for load in faults.loads for index in range(PARTITIONS)]
    faults.flood(True)
    rate = await _best_rate(everywhere, 1.5, enough=enough, samples=samples)
    faults.flood(False)
    return rate


async def _best_rate(places: list[Place], seconds: float, *, enough: float, samples: int = 3) -> float:
    """The best of some samples, as the machine has other work too; the first that is enough ends the sampling.

    Each sample lasts for whole request timeouts: a broker that held the others up would do so in each of them.
    """
    rates: list[float] = []
    while len(rates) < samples and max(rates, default=0.0) < enough:
        rates.append(await _rate(places, seconds))
    return max(rates)


async def _rate(places: list[Place], seconds: float) -> float:
    """Records of these partitions acknowledged in a second, measured over so many seconds."""
    loop = asyncio.get_running_loop()
    before, began = _acked(places), loop.time()
    # How long the rate is measured.
    await asyncio.sleep(seconds)
    return (_acked(places) - before) / (loop.time() - began)


def _acked(places: list[Place]) -> int:
    return sum(load.acked[index] for load, index in places)


@rounds
async def test_faults_drawn_from_a_seed(run: Start, round_: int) -> None:
    """Kills, pauses, clean stops and leader moves in a random order: the promise holds."""
    async with run("drawn", round_) as faults:
        for _ in range(12 if PROOF else 1):
            await _some_fault(faults)
    faults.check()


async def _some_fault(faults: Run) -> None:
    rng = faults.rng
    victim = rng.choice(NODES)
    match rng.choice(["kill", "kill", "pause", "pause two", "stop", "move"]):
        case "kill":
            await faults.kill_in_full_flight(victim)
            await faults.recovered("SIGKILL, others take over")
            faults.restart(victim)
        case "pause":
            await faults.pause(rng.uniform(3, 45 if PROOF else 6), victim)
        case "pause two":
            await faults.pause(rng.uniform(3, 45 if PROOF else 6), *rng.sample(NODES, 2))
        case "stop":
            await faults.stop(victim)
            faults.restart(victim)
        case _:
            await faults.move_leaders()
    await faults.recovered("drawn from the seed", REQUEST_TIMEOUT)
    await faults.until_whole()
