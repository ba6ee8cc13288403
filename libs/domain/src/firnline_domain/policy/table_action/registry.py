"""Every action on a table as a whole, found in the modules of this package;
`firnline_worker.table_actions.registry` finds the function that carries
it out."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract

from firnline_domain.base.modules import import_modules
from firnline_domain.policy.table_action.base import TableAction


def find_actions() -> Iterator[TableAction]:
    """Yield one action of each class that a module of this package defines."""
    for module in import_modules(__name__.rpartition(".")[0]):
        for one in vars(module).values():
            is_action = isinstance(one, type) and issubclass(one, TableAction)
            if is_action and one.__module__ == module.__name__ and not isabstract(one):
                yield one()


TABLE_ACTIONS = {one.name: one for one in find_actions()}
ORDER_REASONS = tuple(code for one in TABLE_ACTIONS.values() for code in one.order_reasons)
WAIT_REASONS = tuple(code for one in TABLE_ACTIONS.values() for code in one.wait_reasons)
