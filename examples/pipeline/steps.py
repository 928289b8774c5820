"""The steps between the sources and the topics. They take and give DataFrames, so a test can call each of them with a batch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from aioproducer.spark.auditing import marked

ORDER: Final = "shop string, number long, product string, quantity int, at timestamp, broken string"
PRODUCTS: Final = [("apple", 30), ("bread", 250), ("cheese", 700), ("tea", 420)]
"""Name, and price in pence: the table that orders are joined with. Yours is perhaps `spark.read.parquet(…)`."""
REGIONS: Final = ("north", "south", "abroad")
NO_TOPIC: Final = "moon"
"""A region without a topic."""
DEAD: Final = "sales.dead"
SUMS: Final = "sales.sums"
WINDOW: Final = "10 minutes"
WINDOW_SECONDS: Final = 600
LATEST: Final = "30 minutes"
"""Orders may come so much later than newer ones and are still in the sums."""


def topic_of(region: str) -> str:
    """The topic of the orders of a region."""
    return f"sales.{region}"


def parsed(lines: DataFrame) -> DataFrame:
    """The orders in the column `value`, and the line itself. The watermark belongs to one source, so it is set here."""
    read = f.from_json("value", ORDER, {"columnNameOfCorruptRecord": "broken"})
    orders = lines.select(f.col("value").alias("line"), read.alias("order")).select("line", "order.*")
    return orders.withWatermark("at", LATEST)


def enriched(orders: DataFrame, shops: DataFrame) -> DataFrame:
    """The orders with the region of the shop and the price in pence, and with a `problem` if they do not fit."""
    prices = orders.sparkSession.createDataFrame(PRODUCTS, "product string, price int")
    # Broadcast tables keep each order in its task: the orders of a shop stay in their order.
    joined = orders.join(f.broadcast(prices), "product", "left").join(f.broadcast(shops), "shop", "left")
    problem = f.expr("""
        case when broken is not null or shop is null or number is null or at is null then 'not an order'
             when quantity is null or quantity < 1 then 'a quantity below 1'
             when price is null then 'an unknown product'
             when region is null then 'an unknown shop' end
    """)
    return joined.withColumn("pence", f.expr("quantity * price")).withColumn("problem", problem)


def routed(orders: DataFrame) -> DataFrame:
    """A record of each order, for the topic of its region; an order that does not fit is a dead letter.

    A region without a topic has null there: the sink makes a dead letter of the row. The values begin with the marks of the audit. A pipeline without them has `to_json(…)` as its value.
    """
    named = orders.withColumns(
        {
            "shop": f.expr("""coalesce(shop, regexp_extract(line, '"shop": "([^"]*)"', 1))"""),
            "number": f.expr("""coalesce(number, regexp_extract(line, '"number": ([0-9]+)', 1))"""),
            "text": f.expr(
                "if(problem is null, to_json(struct(shop, number, product, quantity, pence, region, at)), line)"
            ),
        }
    )
    topics = " ".join(f"when region = '{region}' then '{topic_of(region)}'" for region in REGIONS)
    return named.select(
        f.col("shop").alias("key"),
        marked("shop", "number", "text").alias("value"),
        f.expr(f"case when problem is not null then '{DEAD}' {topics} end").alias("topic"),
        f.expr("if(problem is null, map(), map('problem', problem))").alias("headers"),
    )


def summed(orders: DataFrame) -> DataFrame:
    """The orders and their pence, for each shop and ten minutes."""
    fitting = orders.where("problem is null")
    sums = fitting.groupBy(f.window("at", WINDOW).alias("window"), "shop")
    return sums.agg(f.count("*").alias("orders"), f.sum("pence").alias("pence"))


def in_order(sums: DataFrame, first_second: int) -> DataFrame:
    """A record of each sum of one epoch; those of a shop are in one task, and in the order of their windows."""
    start = "unix_timestamp(window.start)"
    values = marked(
        "concat('sums of ', shop)",
        f"({start} - {first_second}) div {WINDOW_SECONDS}",
        "to_json(struct(shop, window.start as start, orders, pence))",
    )
    # The number of tasks is fixed: a repeated epoch must have as many.
    sorted_sums = sums.repartition(2, "shop").sortWithinPartitions("shop", "window.start")
    return sorted_sums.select(f.col("shop").alias("key"), values.alias("value"))


def table_of_shops(spark: SparkSession, regions: dict[str, str]) -> DataFrame:
    """The region of each shop."""
    return spark.createDataFrame(sorted(regions.items()), "shop string, region string")
