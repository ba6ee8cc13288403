"""firnline kafka-acls"""

from __future__ import annotations

import json

import click

from firnline_cli.shared.console_client import json_option


@click.command("kafka-acls")
@click.option(
    "--principal-prefix",
    default="firnline-",
    show_default=True,
    help="Prefix of a service's principal. With certificates: CN=firnline-",
)
@click.option(
    "--principal-suffix",
    default="",
    help="Suffix of a service's principal. With certificates: ,O=acme",
)
@click.option("--service", "services", multiple=True, help="Only this service; repeatable.")
@click.option(
    "--bootstrap-server",
    "bootstrap",
    default="$FIRNLINE_KAFKA",
    show_default=True,
    help="Bootstrap server in the printed commands.",
)
@click.option(
    "--command-config",
    "config",
    default="admin.properties",
    show_default=True,
    help="Client properties file in the printed commands.",
)
@json_option
def command(
    principal_prefix: str,
    principal_suffix: str,
    services: tuple[str, ...],
    bootstrap: str,
    config: str,
    json_wanted: bool,
) -> None:
    """Print the minimal Kafka ACLs of each service, as commands for kafka-acls.sh.

    Set FIRNLINE_GROUPS and FIRNLINE_PLANNER_APP as for the services. The service `cli` is the
    `firnline` command, `local` is `firnline topics`.
    """
    from firnline_adapters.kafka_admin.acls import SERVICES, all_acls
    from firnline_domain.errors import Misconfigured
    from firnline_local.topics.topics import fleet_groups, topics_with

    from firnline_cli.shared.services import read_planner_app

    if unknown := sorted(set(services) - set(SERVICES)):
        raise click.BadParameter(f"{', '.join(unknown)}: services are {', '.join(SERVICES)}")
    try:
        topics = topics_with(fleet_groups())
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None
    found = [
        (one, f"User:{principal_prefix}{one.service}{principal_suffix}")
        for one in all_acls(topics, read_planner_app())
        if not services or one.service in services
    ]
    if json_wanted:
        rows = [
            {
                "principal": principal,
                "service": one.service,
                "resource": one.kind,
                "name": one.name,
                "pattern": one.pattern,
                "operations": one.operations,
            }
            for one, principal in found
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    for one, principal in found:
        click.echo(one.tool_command(principal, bootstrap, config))
