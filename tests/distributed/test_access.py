"""Who may use a local cluster: whoever holds its certificate, which never leaves its processes."""

import gc
import os
import socket
import stat
from pathlib import Path

import pytest

from polyad.distributed import cluster, open_cluster
from polyad.errors import ClusterError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytest.importorskip("cryptography")


def addresses(client):
    """Return the scheduler's address and those of workers and nannies."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [client.scheduler.address, *workers, *(w["nanny"] for w in workers.values())]


def listening():
    """Return the addresses that this process and its children listen on."""
    psutil = pytest.importorskip("psutil")
    here = psutil.Process()
    open_sockets = [c for p in [here, *here.children(recursive=True)] for c in p.net_connections()]
    return {c.laddr for c in open_sockets if c.status == psutil.CONN_LISTEN}


def test_everything_of_a_local_cluster_speaks_tls(two_workers):
    assert len(addresses(two_workers)) == 5
    assert all(a.startswith("tls://127.0.0.1:") for a in addresses(two_workers))


def test_a_client_without_the_certificate_is_refused(two_workers, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    address = two_workers.scheduler.address
    for stranger in (address, address.replace("tls", "tcp")):
        with (
            pytest.raises(ClusterError, match="no scheduler answers there"),
            open_cluster(stranger),
        ):
            pass  # pragma: no cover


def test_a_client_with_a_certificate_of_its_own_is_refused(two_workers):
    other = distributed.Security.temporary()
    with pytest.raises(OSError, match=r"(?i)timed out|certificate"):
        distributed.Client(two_workers.scheduler.address, security=other, timeout=1)
    gc.collect()  # closes what was made in vain; later it could wait for another client's lock


def test_certificates_of_dasks_settings_open_an_address(two_workers, certificates):
    """As for a cluster of the user's own."""
    where = "DASK_DISTRIBUTED__COMM__TLS__"
    pair = {k: certificates[f"{where}CLIENT__{k.upper()}"] for k in ("cert", "key")}
    tls = {"distributed.comm.tls.ca-file": pair["cert"], "distributed.comm.tls.client": pair}
    with dask.config.set(tls), open_cluster(two_workers.scheduler.address) as friend:
        assert friend.submit(sum, [1, 2]).result() == 3


def test_a_local_cluster_listens_here_only_and_serves_no_pages(two_workers):
    found = listening()
    assert {a.ip for a in found} == {"127.0.0.1"}
    for place in found:
        with socket.create_connection(place, timeout=5) as asked:
            asked.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
            try:
                assert b" 200 " not in asked.recv(200)
            except OSError:  # TLS hangs up on whoever speaks anything else
                continue


@pytest.mark.unix
def test_nobody_else_can_write_where_workers_keep_their_data(two_workers):
    for folder in two_workers.run(lambda dask_worker: dask_worker.local_directory).values():
        above = [p for p in Path(folder).parents if p.name.startswith("polyad-")]
        assert len(above) == 1
        assert stat.S_IMODE(above[0].stat().st_mode) == 0o700
        assert above[0].stat().st_uid == os.getuid()


def test_without_cryptography_one_sentence_says_what_to_install(monkeypatch):
    def lacking():
        raise ImportError

    monkeypatch.setattr(distributed.Security, "temporary", lacking)
    with (
        pytest.raises(ClusterError, match=r"any user of this machine.*polyad\[dask\]"),
        open_cluster("local:1"),
    ):
        pass  # pragma: no cover


def test_a_scheduler_too_busy_to_say_good_bye_spoils_nothing(monkeypatch):
    class Client:
        def __init__(self, **options):
            pass

        def close(self, timeout):
            raise TimeoutError(f"timed out after {timeout} s.")

    monkeypatch.setattr(distributed, "Client", Client)
    with open_cluster("tcp://127.0.0.1:9") as client:
        assert isinstance(client, Client)
