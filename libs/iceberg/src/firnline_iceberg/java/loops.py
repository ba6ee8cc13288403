"""Loops over content files that run in the JVM. A call by py4j costs 0.1 ms of CPU, and a file that
left a table took three. What is done with each file is one of Java's method handles, so that no
class of ours is needed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

CHUNK = 500  # files that go to Java as one text: 150 kB where they leave, 3 MB with metrics


class JavaLoops:
    """Loops over one py4j `jvm` (`JavaNames`: each name that py4j looks up is a call, too)."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._iceberg = jvm.org.apache.iceberg
        self._invoke = jvm.java.lang.invoke
        self._calls: dict[tuple[str, str, str], Any] = {}

    def content_files(self, specs: Any, texts: Sequence[str]) -> Any:
        """Build a Java list with a `DataFile` or `DeleteFile` for each `ContentFileParser` JSON.
        `specs`: Java's map of the table's partition specs by id."""
        made = self._jvm.java.util.ArrayList(len(texts))
        if texts:
            fixed = self._jvm.java.util.Collections.singletonList(specs).toArray()
            parse = self._handle_as(
                self._function, self._invoke.MethodHandles.insertArguments(self._parser, 1, fixed)
            )
            for start in range(0, len(texts), CHUNK):
                nodes = self._mapper.readTree(f"[{','.join(texts[start : start + CHUNK])}]")
                self._iterables.addAll(made, self._iterables.transform(nodes, parse))
        return made

    def call_for_each(self, target: Any, of: str, method: str, files: Any, kind: str) -> None:
        """Call a method of `target` with each of the files that is of a `kind`, `DataFile` or
        `DeleteFile`. `of`: the interface of `target`, which the method returns."""
        if (known := self._calls.get((of, method, kind))) is None:
            known = self._find_method(_java_class(getattr(self._iceberg, of)), method, kind)
            self._calls[of, method, kind] = known
        handle, takes = known
        chosen = self._iterables.filter(files, takes)
        chosen.forEach(self._handle_as(self._consumer, handle.bindTo(target)))

    def _find_method(self, fluent: Any, method: str, kind: str) -> tuple[Any, Any]:
        takes = _java_class(getattr(self._iceberg, kind))
        form = self._method_type(fluent, [takes])
        return self._invoke.MethodHandles.publicLookup().findVirtual(fluent, method, form), takes

    def _handle_as(self, interface: Any, handle: Any) -> Any:
        return self._invoke.MethodHandleProxies.asInterfaceInstance(interface, handle)

    @cached_property
    def _parser(self) -> Any:
        """`ContentFileParser.fromJson(node, specs)`."""
        takes = [_java_class(self._json.JsonNode), _java_class(self._jvm.java.util.Map)]
        form = self._method_type(_java_class(self._iceberg.ContentFile), takes)
        parser = _java_class(self._iceberg.ContentFileParser)
        return self._invoke.MethodHandles.publicLookup().findStatic(parser, "fromJson", form)

    def _method_type(self, returns: Any, takes: list[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for one in takes:
            listed.add(one)
        return self._invoke.MethodType.methodType(returns, listed)

    @property
    def _json(self) -> Any:
        return self._iceberg.shaded.com.fasterxml.jackson.databind

    @cached_property
    def _mapper(self) -> Any:
        return self._json.ObjectMapper()

    @property
    def _iterables(self) -> Any:
        return self._iceberg.relocated.com.google.common.collect.Iterables

    @cached_property
    def _function(self) -> Any:
        return _java_class(self._iceberg.relocated.com.google.common.base.Function)

    @cached_property
    def _consumer(self) -> Any:
        return _java_class(self._jvm.java.util.function.Consumer)


def _java_class(named: Any) -> Any:
    """Return Java's `Class` of a py4j name."""
    return named._java_lang_class
