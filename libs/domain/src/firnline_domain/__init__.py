"""Pure types and decisions; standard library only.

The flow, a module each: `events` (facts) -> `counters` -> `policy` -> `records.orders` (tasks) ->
`results` -> `conflicts`. `ports` are what adapters implement.
"""
