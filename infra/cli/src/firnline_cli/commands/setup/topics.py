"""firnline topics"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import click

from firnline_cli.shared.console_client import json_option
from firnline_cli.shared.fleet import Where, fleet_options


@click.command("topics")
@click.option("--replicas", type=int, help="Replication factor of new topics.")
@click.option("--min-in-sync", type=int, help="min.insync.replicas of new topics.")
@click.option("--buckets", type=int, help="Total number of buckets; missing ones are added.")
@click.option(
    "--apply", "applied", is_flag=True, help="Change the settings of existing topics that differ."
)
@click.option("--dry-run", is_flag=True, help="Only report differences.")
@json_option
@fleet_options
def command(
    where: Where,
    replicas: int | None,
    min_in_sync: int | None,
    buckets: int | None,
    applied: bool,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Create the Kafka topics, including those of FIRNLINE_GROUPS, with FIRNLINE_BUCKETS buckets.
    Report how existing topics differ.

    The default is 3 replicas if the cluster has 3 brokers. FIRNLINE_TOPIC_CONFIG sets the retention
    and other settings of single topics.
    """
    from confluent_kafka import KafkaException
    from firnline_domain.errors import Misconfigured
    from firnline_local.topics.topics import WrongPartitions

    from firnline_cli.shared.formats import print_wrapped

    connection = where.fleet_connection()
    try:
        made = _make_topics(connection, replicas, min_in_sync, buckets, applied, dry_run)
    except (Misconfigured, WrongPartitions) as error:
        raise click.ClickException(str(error)) from None
    except KafkaException as error:
        text = f"Kafka at {connection.servers} does not do it: {error.args[0].str()}"
        raise click.ClickException(text) from None
    if json_wanted:
        click.echo(json.dumps(made, default=asdict))
        return
    for line in (made["remark"], *map(str, made["differences"])):
        if line:
            print_wrapped(line)
    print_wrapped(
        f"{made['topics']} topics, replication factor {made['replicas']}, at least "
        f"{made['min_in_sync']} in sync" + (", nothing made" if dry_run else "")
    )


def _make_topics(
    connection: Any,
    replicas: int | None,
    min_in_sync: int | None,
    buckets: int | None,
    applied: bool,
    dry_run: bool,
) -> dict[str, Any]:
    from confluent_kafka.admin import AdminClient
    from firnline_adapters.kafka.connection import QUIET, client_config
    from firnline_adapters.kafka_admin.replication import replication_here
    from firnline_local.topics import topic_options, topics

    options = topic_options.options_here()
    options = replace(
        options,
        replicas=options.replicas if replicas is None else replicas,
        min_in_sync=options.min_in_sync if min_in_sync is None else min_in_sync,
    )
    groups, homes = topics.fleet_groups(), topics.initial_buckets()
    admin = AdminClient(client_config(connection, QUIET))
    copies = replication_here(admin, options.replicas, options.min_in_sync)
    wanted = topic_options.with_options(topics.topics_with(groups), options)
    found = topic_options.find_differences(
        admin, wanted, homes, copies
    )  # before they are made: one with other partitions stops that
    if applied and not dry_run:
        topic_options.apply_settings(admin, found)
    if not dry_run:
        topics.make_topics(connection, homes, groups, buckets, options)
    return {
        "topics": len(wanted),
        "replicas": copies.replicas,
        "min_in_sync": copies.min_in_sync,
        "remark": copies.remark,
        "differences": [one for one in found if not (applied and one.can_be_applied)],
    }
