"""The alert rules of infra/observability."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

RULES = Path(__file__).parents[3] / "infra/observability/alerts.yaml"


class Rule(NamedTuple):
    """One alert rule. `lasts`: how long its expression must hold; '' = it fires at once."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    meaning: str
    remedy: str


def read_rules() -> list[Rule]:
    """Read the rules in the order of their file."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return [
        Rule(
            one["alert"],
            one["expr"].strip(),
            one.get("for", ""),
            one["labels"]["severity"],
            one["annotations"]["summary"],
            one["annotations"]["description"],
            one["annotations"]["runbook"],
        )
        for one in group["rules"]
    ]


def list_alerts() -> str:
    """Return a section for each alert, so that each has an address."""
    return "\n".join(map(_section, read_rules()))


def _section(rule: Rule) -> str:
    fires = rule.severity + (f", after {rule.lasts}" if rule.lasts else "")
    expression = f"```promql\n{rule.expression}\n```"
    return (
        f"## {rule.name}\n\n{rule.meaning}\n\nWhat to do: {rule.remedy}\n\n"
        f"Severity: {fires}.\n\n{expression}\n"
    )
