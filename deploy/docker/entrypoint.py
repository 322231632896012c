"""Becomes what a container is to run: our command, or the driver or executor of Spark on Kubernetes.

Spark starts containers with the arguments `driver …` and `executor`, and says the rest by variables. Each becomes the
process itself (exec), so that signals arrive where they belong; no shell is started.
"""

import os
import sys
from collections.abc import Mapping, Sequence

COMMAND = "/opt/ducklake/bin/ducklake-stream"
JAVA_OPTION = "SPARK_JAVA_OPT_"
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def command_of(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments."""
    if arguments[:1] == ["driver"]:
        return _driver(arguments[1:], environment)
    if arguments[:1] == ["executor"]:
        return _executor(environment)
    return [COMMAND, *arguments]


def _driver(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    address = environment["SPARK_DRIVER_BIND_ADDRESS"]
    return [
        f"{environment['SPARK_HOME']}/bin/spark-submit",
        *("--conf", f"spark.driver.bindAddress={address}"),
        *("--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"),
        *("--deploy-mode", "client"),
        *arguments,
    ]


def _executor(environment: Mapping[str, str]) -> list[str]:
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    named = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *_java_options(environment),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", _class_path(environment)),
        BACKEND,
        *(word for option, name in named.items() for word in (option, environment[name])),
    ]


def _java_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of Java, in the order of their numbers."""
    numbered = {
        int(name.removeprefix(JAVA_OPTION)): text for name, text in environment.items() if name.startswith(JAVA_OPTION)
    }
    return [numbered[number] for number in sorted(numbered)]


def _class_path(environment: Mapping[str, str]) -> str:
    folders = (
        environment.get("SPARK_CONF_DIR"),
        environment.get("SPARK_CLASSPATH"),
        f"{environment['SPARK_HOME']}/jars/*",
    )
    return ":".join(one for one in folders if one)


if __name__ == "__main__":
    command = command_of(sys.argv[1:], os.environ)
    os.execv(command[0], command)  # noqa: S606 # that is what it is for
