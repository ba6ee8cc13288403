"""Names of a JVM's packages, classes and static methods."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage


class JavaNames:
    """Names below a py4j root or package, each looked up once.

    py4j asks the JVM for each part of `jvm.org.apache.iceberg.Table` wherever it is written, and
    Spark's JVM then looks into all its 300 jars for a class `org`, a class `org.apache` and so on:
    half of what a worker's tasks spent in Java.
    """

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if isinstance(member, JavaPackage):
            member = JavaNames(member)
        elif isinstance(member, JavaClass):
            member = _Class(member._fqn, member._gateway_client)
        setattr(self, name, member)
        return member


class _Class(JavaClass):  # type: ignore[misc]
    """A class whose static methods are looked up once. Its fields may change."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            setattr(self, name, member)
        return member
