"""Sentinel and Cluster."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from redis import sentinel as driver_sentinel

from rlock_client import Client, LockLost, Unsupported
from support import SERVER, Server, eventually, free_port

make_sentinel: Any = driver_sentinel.Sentinel


def test_a_fail_over_by_sentinel(tmp_path: Path, name: str) -> None:
    primary = Server(*(words := ["--repl-diskless-sync-delay", "0"]))
    replica = Server("--replicaof", "127.0.0.1", str(primary.port), *words)
    port, config = free_port(), tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor primary 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds primary 500\nsentinel failover-timeout primary 2000\n"
    )
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    watcher = subprocess.Popen([SERVER, str(config), "--sentinel"], **quiet)  # type: ignore[call-overload]
    sentinel: Any = make_sentinel([("127.0.0.1", free_port()), ("127.0.0.1", port)], socket_timeout=1)
    try:
        eventually(lambda: replica.redis.info("replication")["master_link_status"] == "up")
        eventually(lambda: found(sentinel) == 1)
        driver = sentinel.master_for("primary")
        with Client(driver, lease=4) as client, ThreadPoolExecutor() as pool:
            held = client.lock(name).acquire()
            waiting = pool.submit(client.lock(name).acquire, 30)
            eventually(lambda: primary.waiters(name) == 1)
            primary.process.kill()
            # The lock was replicated: it is held on, or lost in time; the waiter asks the new primary.
            time.sleep(3)
            try:
                held.check()
                held.release()
            except LockLost:
                pass
            waiting.result(20).release()
            assert replica.redis.role()[0] == b"master"
    finally:
        watcher.kill()
        watcher.wait()
        replica.stop()
        primary.stop()


def found(sentinel: Any) -> int:
    for one in sentinel.sentinels:
        try:
            return int(one.sentinel_master("primary")["num-slaves"])
        except redis.RedisError:
            continue
    return 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
    # The port of the cluster's bus is 10,000 higher.
    ports = [next(port for port in iter(free_port, 0) if port < 55_000) for _ in range(3)]
    nodes = [Server(*options, "--dir", str(tmp_path_factory.mktemp("node")), port=port) for port in ports]
    try:
        join(nodes)
        yield nodes
    finally:
        for node in nodes:
            node.stop()


def join(nodes: list[Server]) -> None:
    for number, node in enumerate(nodes):
        last = 16383 if number == 2 else (number + 1) * 5461
        node.do("CLUSTER", "ADDSLOTSRANGE", number * 5461 + (number > 0), last)
        node.do("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1")
        nodes[0].do("CLUSTER", "MEET", "127.0.0.1", node.port)
    eventually(lambda: all(b"cluster_state:ok" in node.do("CLUSTER", "INFO") for node in nodes), 20)
    eventually(lambda: all(b"cluster_known_nodes:3" in node.do("CLUSTER", "INFO") for node in nodes), 20)


def test_locks_in_a_cluster(cluster: list[Server], name: str) -> None:
    driver = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port)
    with Client(driver, lease=1) as client:
        guards = [client.lock(f"{name}:{number}").try_acquire() for number in range(20)]
        time.sleep(1.5)
        for guard in guards:
            guard.check()
            assert client.lock(guard.name).locked()
            guard.release()
        with pytest.raises(Unsupported, match="does not wait in a cluster; use try_acquire"):
            client.lock(name).acquire()
    driver.close()
