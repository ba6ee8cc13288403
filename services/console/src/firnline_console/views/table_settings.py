"""The settings that hold for a table, and their sources, as JSON values."""

from __future__ import annotations

from firnline_domain.records.states import SettingInForce, TableState
from firnline_domain.settings.in_force import settings_in_force
from firnline_domain.settings.thresholds import Origin

NOT_SET = "not set"


def settings_json(state: TableState | None) -> list[dict[str, str]]:
    """Return every setting, as the planner last published it; before, as it would be without a
    fleet's defaults."""
    defaults = settings_in_force({})
    published = settings_in_force(state.settings) if state else {}
    if state is not None and state.in_force is not None:
        published = {one.name: one for one in state.in_force}
    every = {**defaults, **published}  # a planner may know settings that this console does not
    namespace = ".".join(state.table.namespace) if state else ""
    return [_setting_json(one, defaults.get(name), namespace) for name, one in every.items()]


def _setting_json(
    setting: SettingInForce, default: SettingInForce | None, namespace: str
) -> dict[str, str]:
    return {
        "name": setting.name,
        "value": setting.value or NOT_SET,
        "default": (default.value if default else "") or NOT_SET,
        "origin": setting.origin,
        "problem": setting.problem,
        "policy": setting.policy,
        "source": source_words(setting, namespace),
    }


def source_words(setting: SettingInForce, namespace: str) -> str:
    """Return the source of a setting, and what is wrong with it, in one phrase."""
    where = {
        Origin.TABLE: "table property",
        Origin.NAMESPACE: f"property of namespace {namespace}",
        Origin.POLICY: f"policy {setting.policy}",
        Origin.FLEET: "deployment (the planner's environment)",
    }.get(Origin(setting.origin), setting.origin)
    return f"{where}; {setting.problem}" if setting.problem else where
