"""Orders for the demonstration, and what has to come out of them: every record, and every sum."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from .steps import DEAD, NO_TOPIC, PRODUCTS, REGIONS, SUMS, WINDOW_SECONDS, topic_of

FIRST_SECOND: Final = 1_767_225_600
"""Midnight of 2026-01-01: the first orders, and the start of the first window."""
SECONDS_BETWEEN: Final = 5
PARTITIONS: Final = 3
LATE_SECONDS: Final = 1_800
PRICES: Final = dict(PRODUCTS)


@attrs.frozen
class Orders:
    """So many orders of each shop. Shops `till …` write files, shops `web …` records; those `odd …` send what does not fit."""

    each: int
    shops: int = 3
    files: int = 8

    def names(self, kind: str) -> list[str]:
        """The shops of a source."""
        return [*(f"{kind} {number}" for number in range(self.shops)), f"odd {kind}", f"{NO_TOPIC} {kind}"]

    @property
    def regions(self) -> dict[str, str]:
        """The region of each shop that has one."""
        names = [name for kind in ("till", "web") for name in self.names(kind)]
        found = {
            name: REGIONS[at % len(REGIONS)] for at, name in enumerate(names) if not name.startswith("odd")
        }
        return found | {name: NO_TOPIC for name in names if name.startswith(NO_TOPIC)}

    def lines(self, kind: str) -> Iterator[tuple[str, str]]:
        """Shop and text of each order, by time."""
        for number in range(self.each):
            for shop in self.names(kind):
                yield shop, line(shop, number)

    def write_files(self, folder: Path) -> None:
        """Write the orders of the tills; each file becomes an epoch, the oldest first."""
        folder.mkdir(parents=True)
        lines = [text for _, text in self.lines("till")]
        size = -(-len(lines) // self.files)
        for number in range(self.files):
            path = folder / f"{number:03}.txt"
            path.write_text("".join(f"{text}\n" for text in lines[number * size : (number + 1) * size]))
            os.utime(path, (FIRST_SECOND + number, FIRST_SECOND + number))

    @property
    def windows(self) -> int:
        """The windows that are over, by the watermark, when all orders are read."""
        last = (self.each - 1) * SECONDS_BETWEEN
        return max(last - LATE_SECONDS, 0) // WINDOW_SECONDS

    @property
    def expected(self) -> dict[str, int]:
        """For the audit: the number of records of each source, over all topics."""
        names = [name for kind in ("till", "web") for name in self.names(kind)]
        sums = {f"sums of {name}": self.windows for name in self.regions if self.windows}
        return dict.fromkeys(names, self.each) | sums

    @property
    def topics(self) -> list[str]:
        """The topics that the pipeline writes."""
        return [*map(topic_of, REGIONS), SUMS, DEAD]

    @property
    def by_topic(self) -> Counter[str]:
        """The number of records of each topic."""
        found = Counter({SUMS: self.windows * len(self.regions)})
        for kind in ("till", "web"):
            for name in self.names(kind):
                region = self.regions.get(name, NO_TOPIC)
                found[DEAD if region == NO_TOPIC else topic_of(region)] += self.each
        return found

    def sums(self) -> dict[tuple[str, int], tuple[int, int]]:
        """The number of orders and their pence, by shop and window."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for name in self.regions:
            for number in range(self.each):
                window = number * SECONDS_BETWEEN // WINDOW_SECONDS
                if window < self.windows:
                    product, quantity = bought(number)
                    orders, pence = found.get((name, window), (0, 0))
                    found[name, window] = (orders + 1, pence + PRICES[product] * quantity)
        return found


def bought(number: int) -> tuple[str, int]:
    """Product and quantity of the order with this number."""
    return PRODUCTS[number % len(PRODUCTS)][0], number % 7 + 1


def line(shop: str, number: int) -> str:
    """An order as it arrives."""
    product, quantity = bought(number)
    at = datetime.fromtimestamp(FIRST_SECOND + number * SECONDS_BETWEEN, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    order = {"shop": shop, "number": number, "product": product, "quantity": quantity, "at": at}
    if not shop.startswith("odd"):
        return json.dumps(order)
    match number % 4:
        case 0:
            return json.dumps(order)[:-20]
        case 1:
            return json.dumps(order | {"quantity": 0})
        case 2:
            return json.dumps(order | {"product": "unicorn"})
        case _:
            return json.dumps(order)


def wrong_sums(orders: Orders, values: Iterator[bytes]) -> list[str]:
    """A line for each sum that is not the one of its orders; the audit says which are lost or doubled."""
    expected = orders.sums()
    wrong = []
    for value in values:
        found = json.loads(value.split(b":", 3)[3])
        start = datetime.fromisoformat(found["start"]).timestamp()
        place = (found["shop"], int(start - FIRST_SECOND) // WINDOW_SECONDS)
        if expected.get(place) != (found["orders"], found["pence"]):
            wrong.append(f"the sum of {place[0]}, window {place[1]}: {found}, expected {expected.get(place)}")
    return wrong
