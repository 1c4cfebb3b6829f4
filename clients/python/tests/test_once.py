"""The page's section "Once in the cluster": two processes whose schedulers start the job every second run it once."""

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
