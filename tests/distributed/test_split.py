"""The same replicas in one process, in several, and on several hosts give the same bits."""

import hashlib
import os
import pathlib
import subprocess
import sys
from typing import Dict, Iterator, List

import pytest

PROGRAM = pathlib.Path(__file__).with_name("split_program.py")


def results(command: List[str], folder: pathlib.Path) -> Dict[str, str]:
    """What the program printed, once every instance that printed a name printed the same, and its checkpoint."""
    run = [*command, sys.executable, str(PROGRAM), str(folder / "saved.safetensors")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found: Dict[str, str] = {}
    for line in done.stdout.splitlines():
        name, value = line.split(": ")
        assert found.setdefault(name, value) == value
    found["checkpoint"] = hashlib.sha256((folder / "saved.safetensors").read_bytes()).hexdigest()
    return found


def poprun(*options: str) -> List[str]:
    return [sys.executable, "-m", "popdist.poprun", "--num-replicas=4", *options]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    found = results([], tmp_path_factory.mktemp("one"))
    assert len(found) == 9
    assert len({found[f"replica {r}"] for r in range(4)}) == 4
    return found


@pytest.mark.parametrize("instances", [1, 2, 4])
def test_processes(expected: Dict[str, str], instances: int, tmp_path: pathlib.Path) -> None:
    assert results(poprun(f"--num-instances={instances}"), tmp_path) == expected


@pytest.fixture
def two_hosts(tmp_path: pathlib.Path) -> Iterator[List[str]]:
    """Two network namespaces with one wire between them, and what poprun needs to reach them."""
    names = [f"popxl{os.getpid()}{side}" for side in "ab"]
    addresses = ["10.213.77.1", "10.213.77.2"]
    wires = [f"p{os.getpid() % 10**9}{side}" for side in "ab"]

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", wires[0], "netns", names[0], "type", "veth", "peer", "name", wires[1], "netns", names[1])
        for name, address, wire in zip(names, addresses, wires):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", wire)
            ip("-n", name, "link", "set", wire, "up")
            ip("-n", name, "link", "set", "lo", "up")
        login = tmp_path / "login"
        login.write_text(
            "#!/bin/sh\n"
            'while [ "${1#-}" != "$1" ]; do shift; done\n'
            f'case "$1" in {addresses[0]}) host={names[0]};; {addresses[1]}) host={names[1]};; esac\n'
            "shift\n"
            'exec ip netns exec "$host" /bin/sh -c "$*"\n'
        )
        login.chmod(0o700)
        network = "10.213.77.0/24"
        mca = f"plm_rsh_agent {login}", "btl tcp,self", f"btl_tcp_if_include {network}", f"oob_tcp_if_include {network}"
        yield [
            *("ip", "netns", "exec", names[0]),
            *poprun(f"--host={','.join(addresses)}", f"--mpi-global-args={' '.join(f'--mca {m}' for m in mca)}"),
        ]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")
@pytest.mark.parametrize("instances", [2, 4])
def test_hosts(expected: Dict[str, str], two_hosts: List[str], instances: int, tmp_path: pathlib.Path) -> None:
    assert results([*two_hosts, f"--num-instances={instances}"], tmp_path) == expected
