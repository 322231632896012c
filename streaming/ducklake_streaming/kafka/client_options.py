"""Spark's Kafka options, which are those of Kafka's Java client, as librdkafka takes them. Pure; no Spark.

Only what is needed to be let in is translated: security, SASL and TLS. How Spark's own clients are tuned says nothing
about ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ducklake_core.errors import InvalidInput

_PREFIX = "kafka."
_SECURITY = re.compile(r"security\.protocol|sasl\.|ssl\.")
_SAME_NAME = {
    "security.protocol",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "ssl.cipher.suites",
    "ssl.key.password",
}
_PEM_TEXTS = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
# They say how Java finds its parts, or are told by another option; librdkafka needs none of them.
_NOT_NEEDED = {
    "ssl.enabled.protocols",
    "ssl.keymanager.algorithm",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
_JAAS = re.compile(r"\S*\.(PlainLoginModule|ScramLoginModule)\s+required\b(?P<values>.*)", re.DOTALL)
_JAAS_VALUE = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


def client_options(servers: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a client; raise InvalidInput that names each which only Java's client understands."""
    given = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
    security = {name: value for name, value in given.items() if _SECURITY.match(name)}
    found = {"bootstrap.servers": servers}
    refused = []
    for name in security:
        translated = _translate(name, security)
        if translated is None:
            refused.append(f"{_PREFIX}{name}")
        else:
            found.update(translated)
    if refused:
        raise InvalidInput(
            f"{', '.join(sorted(refused))}: Spark's Kafka client understands this, ours (librdkafka) does not. It "
            'takes certificates as PEM (kafka.ssl.truststore.type = "PEM"), a keystore as PEM or PKCS12, and user and '
            "password of PlainLoginModule or ScramLoginModule",
            options=tuple(sorted(refused)),
        )
    return found


def _translate(name: str, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return what an option becomes; None where it cannot be said to librdkafka."""
    value = given[name]
    match name:
        case "sasl.jaas.config":
            return _login(value)
        case "ssl.endpoint.identification.algorithm":
            return {name: value or "none"}
        case "ssl.truststore.location":
            return {"ssl.ca.location": value} if _kind(given, "truststore") == "PEM" else None
        case "ssl.keystore.location":
            return _keystore(given)
    renamed = name if name in _SAME_NAME else _PEM_TEXTS.get(name)
    return {renamed: value} if renamed else {} if name in _NOT_NEEDED else None


def _kind(given: Mapping[str, str], store: str) -> str:
    return given.get(f"ssl.{store}.type", "JKS").upper()


def _keystore(given: Mapping[str, str]) -> dict[str, str] | None:
    location = given["ssl.keystore.location"]
    match _kind(given, "keystore"):
        case "PEM":
            return {"ssl.certificate.location": location, "ssl.key.location": location}
        case "PKCS12":
            password = given.get("ssl.keystore.password")
            return {"ssl.keystore.location": location, **({"ssl.keystore.password": password} if password else {})}
        case _:
            return None


def _login(jaas: str) -> dict[str, str] | None:
    """Return user and password of Java's text; None for other ways to log in, such as Kerberos."""
    module = _JAAS.match(jaas.strip())
    if module is None:
        return None
    values = {name: _unquoted(*texts) for name, *texts in _JAAS_VALUE.findall(module["values"])}
    if not {"username", "password"} <= values.keys():
        return None
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


def _unquoted(double: str, single: str, bare: str) -> str:
    return bare or re.sub(r"\\(.)", r"\1", double or single)
