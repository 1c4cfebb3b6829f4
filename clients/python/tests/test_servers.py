"""Sentinel and Cluster."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from redis import sentinel as driver_sentinel

from rlock_client import Client, LockLost, Timeout, Unreachable
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
            # A release that no primary answers in time has no known outcome.
            eventually(lambda: replica.redis.role()[0] == b"master", 20)
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
    ports = [free_port() for _ in range(3)]
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


def test_waits_in_a_cluster(cluster: list[Server], name: str) -> None:
    """Each node that is used has one subscription, and each grant is at its own node."""
    driver = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port)
    names = [f"{name}:{number}" for number in range(9)]
    with Client(driver) as one, Client(driver) as two, ThreadPoolExecutor(9) as pool:
        guards = [one.lock(each).acquire() for each in names]
        waits = [pool.submit(two.lock(each).acquire, 20) for each in names]
        eventually(lambda: all(one.lock(each).info().waiter_count for each in names))
        shards = [node.do("PUBSUB", "SHARDCHANNELS") for node in cluster]
        assert all(len(channels) == 2 for channels in shards), shards
        for guard in guards:
            guard.release()
        for wait in waits:
            wait.result().release()
        with two.lock_all(names, wait=5) as held:
            assert held.check() > 20
        with pytest.raises(Timeout), two.lock(names[0]), one.lock(names[0], wait=0.1):
            pass
    driver.close()


def test_a_seed_of_another_name_asks_once_where_the_slots_are(cluster: list[Server], name: str) -> None:
    """The link to it knows no slot of its own. It asked twenty times a second for a minute."""

    def asked() -> int:
        counted = [node.redis.info("commandstats").get("cmdstat_cluster|slots", {"calls": 0}) for node in cluster]
        return sum(one["calls"] for one in counted)

    def quiet() -> bool:
        before = asked()
        time.sleep(0.5)
        return asked() == before

    with Client(f"redis+cluster://localhost:{cluster[0].port}") as client, client.lock(name, wait=5):
        eventually(quiet)  # on a busy machine, the last of its first connections comes late
        before = asked()
        time.sleep(1)
        assert asked() - before <= 2


def test_a_unix_socket(tmp_path: Path, name: str) -> None:
    server = Server("--unixsocket", str(tmp_path / "s"))
    driver = redis.Redis(unix_socket_path=str(tmp_path / "s"), db=2)
    try:
        for target in (f"unix://{tmp_path}/s?db=2", driver):
            with Client(target) as client, client.lock(name, wait=5):
                assert driver.exists(name)
    finally:
        driver.close()
        server.stop()


# asyncio closes the socket of a handshake that is given up after 30 s; the engine ends before.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tls(tmp_path: Path, name: str) -> None:
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "cert"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    port, cert, key = free_port(), str(tmp_path / "cert"), str(tmp_path / "key")
    words = ["--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"]
    server = Server(*words, "--tls-ca-cert-file", cert)
    driver = redis.Redis(host="localhost", port=port, ssl=True, ssl_ca_certs=cert)
    try:
        for target in (f"rediss://localhost:{port}?ssl_ca_certs={cert}", driver):
            # On a busy machine, a handshake takes longer than it should.
            with Client(target, response_timeout=20) as client, client.lock(name, wait=20) as held:
                held.check()
        for target in (f"rediss://localhost:{port}", f"redis://localhost:{port}", f"rediss://localhost:{server.port}"):
            with Client(target) as client, pytest.raises(Unreachable):
                client.lock(name).acquire()
        gc.collect()
    finally:
        driver.close()
        server.stop()
