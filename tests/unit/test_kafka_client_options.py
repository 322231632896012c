"""Options of Spark's Kafka source as librdkafka takes them, and those that it cannot."""

import pytest
from confluent_kafka.admin import AdminClient

from ducklake_core.errors import InvalidInput
from ducklake_streaming.kafka.client_options import client_options

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, {}),
        ({"maxOffsetsPerTrigger": "3", "kafka.fetch.max.bytes": "1"}, {}),
        ({"kafka.security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_SSL"}),
        (
            {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": f'{PLAIN} username="u" password="p w\\"=;";'},
            {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": 'p w"=;'},
        ),
        (
            {"kafka.sasl.jaas.config": f"  {SCRAM}\n  password='p'\n  username=u;"},
            {"sasl.username": "u", "sasl.password": "p"},
        ),
        (
            {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {
                "kafka.ssl.keystore.type": "pkcs12",
                "kafka.ssl.keystore.location": "/k.p12",
                "kafka.ssl.keystore.password": "x",
            },
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"},
        ),
        (
            {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": "/k.pem", "kafka.ssl.key.password": "x"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem", "ssl.key.password": "x"},
        ),
        (
            {"kafka.ssl.truststore.certificates": "CA", "kafka.ssl.keystore.key": "K"},
            {"ssl.ca.pem": "CA", "ssl.key.pem": "K"},
        ),
        ({"kafka.ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ],
)
def test_options_of_security_are_translated(given: dict[str, str], taken: dict[str, str]) -> None:
    assert client_options("b:9092", given) == {"bootstrap.servers": "b:9092", **taken}


def test_every_name_that_we_translate_to_is_one_that_librdkafka_knows() -> None:
    names = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "sasl.kerberos.service.name": "kafka",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.cipher.suites": "ALL",
    }
    AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **names})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"kafka.ssl.truststore.location": "/t.jks"}, "kafka.ssl.truststore.location"),
        ({"kafka.ssl.keystore.location": "/k.jks"}, "kafka.ssl.keystore.location"),
        (
            {"kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "kafka.sasl.jaas.config",
        ),
        ({"kafka.sasl.jaas.config": f'{PLAIN} username="u";'}, "kafka.sasl.jaas.config"),
        ({"kafka.sasl.login.callback.handler.class": "x.Y"}, "kafka.sasl.login.callback.handler.class"),
    ],
)
def test_options_that_only_java_understands_are_named_without_their_values(given: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        client_options("b:9092", given)

    assert str(caught.value).startswith(f"{named}: ")
    assert not any(value in str(caught.value) for value in given.values())
