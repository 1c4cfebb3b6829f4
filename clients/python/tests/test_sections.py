"""Sections of the page that use other packages: a job that two schedulers start runs once, and metrics."""

from __future__ import annotations

import os
import subprocess
import sys

from support import Server
from test_ways import PAGE, blocks

PROGRAM = """
import os, time
from rlock_client import Client, Denied
client = Client(os.environ["REDIS_URL"])
print("ready", flush=True)
{code}
time.sleep(4)
scheduler.shutdown()
client.close()
"""


def test_once(own_server: Server) -> None:
    code = blocks(PAGE.with_name("python.md"), "python once").replace('minute="*"', 'second="*"')
    words, environment = [sys.executable, "-c", PROGRAM.format(code=code)], {**os.environ, "REDIS_URL": own_server.url}
    both = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = "".join(one.communicate(timeout=60)[0] for one in both)
    assert printed.count("ready") == 2
    assert printed.count("report") == 1


METRICS = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
import os, time
from rlock_client import Client
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
{code}
with observed.lock("metrics"):
    time.sleep(0.05)
observed.close()
for point in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0].data.data_points:
    kind = point.attributes["kind"]
    print(kind, point.count, point.sum < 50 and (kind == "acquired" or point.sum >= 0.05))
"""


def test_metrics(server: Server) -> None:
    code = blocks(PAGE.with_name("python.md"), "python otel")
    environment = {**os.environ, "REDIS_URL": server.url}
    words = [sys.executable, "-c", METRICS.format(code=code)]
    printed = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert sorted(printed.splitlines()) == ["acquired 1 True", "released 1 True"]
