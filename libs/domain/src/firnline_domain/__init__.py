"""Pure types and decisions; standard library only.

The flow, a module each: `events` (facts) -> `counters` -> `policy` -> `commands` (orders) ->
`results` -> `conflicts`. `ports` are what adapters implement.
"""
