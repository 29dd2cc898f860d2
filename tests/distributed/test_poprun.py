"""`poprun` and `popdist`: how replicas are spread, and how a run over several processes ends."""

import pathlib
import subprocess
import sys

import pytest

from popdist import _environment, poprun

PROGRAM = """
import os, signal, sys
import popdist

popdist.init()
print("instance", popdist.getInstanceIndex(), "of", popdist.getNumInstances(), "from replica",
      popdist.getReplicaIndexOffset(), "with", popdist.getNumLocalReplicas(), "of", popdist.getNumTotalReplicas())
sys.stdout.flush()
popdist.synchronize()
if popdist.getInstanceIndex() == 1:
    {last_words}
popdist.synchronize()
print("end of", popdist.getInstanceIndex())
"""


def launch(folder: pathlib.Path, *options: str, last_words: str = "pass") -> subprocess.CompletedProcess:
    program = folder / "program.py"
    program.write_text(PROGRAM.format(last_words=last_words))
    command = [sys.executable, "-m", "popdist.poprun", *options, sys.executable, str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("instances", "replicas"), [(2, 4), (4, 4)])
def test_every_instance_knows_its_place(tmp_path: pathlib.Path, instances: int, replicas: int) -> None:
    done = launch(tmp_path, f"--num-instances={instances}", f"--num-replicas={replicas}")
    assert done.returncode == 0, done.stderr
    each = replicas // instances
    expected = [f"end of {i}" for i in range(instances)]
    expected += [f"instance {i} of {instances} from replica {i * each} with {each} of {replicas}" for i in range(instances)]
    assert sorted(done.stdout.splitlines()) == sorted(expected)


@pytest.mark.parametrize(
    ("last_words", "message"),
    [
        ("raise ArithmeticError('too far')", "ArithmeticError: too far"),
        ("sys.exit(0)", "but instance 1 has ended without it"),
        ("sys.exit(3)", "but instance 1 has ended without it"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("os._exit(4)", "instance 1"),
    ],
)
def test_run_ends_when_an_instance_does(tmp_path: pathlib.Path, last_words: str, message: str) -> None:
    done = launch(tmp_path, "--num-instances=2", "--num-replicas=4", last_words=last_words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "poprun: instance 1 (replicas 2 to 3, host localhost) failed first" in done.stderr
    assert "end of" not in done.stdout


def test_only_output_from_one_instance(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--num-instances=2", "--only-output-from-instance=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "instance 1 of 2 from replica 1 with 1 of 2\nend of 1\n"


def test_what_was_not_shown_is_shown_after_a_failure(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--num-instances=2", "--only-output-from-instance=0", last_words="raise ArithmeticError")
    assert "instance 1: ArithmeticError" in done.stderr


@pytest.mark.parametrize("flag", [["--print-topology"], ["--print-topology=yes"], ["--print-topology", "yes"]])
def test_topology_without_a_program(flag: list, capsys: pytest.CaptureFixture) -> None:
    assert poprun.main(["--host=a,b", "--num-replicas=4", *flag]) == 0
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [row[:3] for row in rows[1:]] == [["0", "a", "0..1"], ["1", "b", "2..3"]]


def test_topology_and_hardware_options(tmp_path: pathlib.Path) -> None:
    hardware = ["--vipu-partition=pod", "--num-ilds", "1"]
    done = launch(tmp_path, "--num-instances=2", "--num-replicas=8", "--print-topology=yes", *hardware)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[:3] for row in rows] == [
        ["instance", "host", "replicas"],
        ["0", "localhost", "0..3"],
        ["1", "localhost", "4..7"],
    ]
    assert done.stderr.count("poprun: there is no such hardware here, ignored: --num-ilds, --vipu-partition\n") == 1


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("a", ["a"]),
        ("a,b.example.org", ["a", "b.example.org"]),
        ("node[0-2,4]", ["node0", "node1", "node2", "node4"]),
        ("n[08-10]x,m", ["n08x", "n09x", "n10x", "m"]),
    ],
)
def test_hosts(text: str, hosts: list) -> None:
    assert poprun.expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["a[1-2", "a]", "a[x]", "a[1-]", "n[3-1]", ",,", ",", "n[0-99999999999]", "n[0-60000],m[0-60000]"]
)
def test_bad_hosts(text: str) -> None:
    with pytest.raises(ValueError, match="host|range"):
        poprun.expand_hosts(text)


def test_instances_are_spread_over_hosts() -> None:
    instances = poprun.plan(["a", "b"], 4, 8)
    assert [(i.host, i.local_index, i.first_replica, i.num_replicas) for i in instances] == [
        ("a", 0, 0, 2),
        ("a", 1, 2, 2),
        ("b", 0, 4, 2),
        ("b", 1, 6, 2),
    ]


def test_hosts_of_a_file(tmp_path: pathlib.Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# two\na slots=4\n\nb\n")
    options = poprun._parser().parse_args([f"--hostfile={hosts}", "true"])
    assert [i.host for i in poprun.plan(poprun._hosts(options), 4, 4)] == ["a", "a", "b", "b"]


def test_what_mpirun_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POPXL_NUM_THREADS", raising=False)
    arguments = ["--numa-aware=yes", "--executable-cache-path=/cache", "--mpi-global-args=-q", "--mpi-local-args=-x A"]
    options = poprun._parser().parse_args([*arguments, "program", "--own", "1"])
    command = poprun.mpirun_command(poprun.plan(["a", "b"], None, 6), options)
    first, second = " ".join(command).split(" : ")
    assert "--bind-to numa" in first and " -q " in first
    for part, host, offset in ((first, "a", 0), (second, "b", 3)):
        assert f"-np 1 -host {host} " in part
        assert part.endswith(" -x A program --own 1")
        for setting in ("NUM_TOTAL_REPLICAS=6", "NUM_LOCAL_REPLICAS=3", f"REPLICA_INDEX_OFFSET={offset}"):
            assert f" -x POPDIST_{setting} " in part
        assert " -x POPXL_CACHE_DIR=/cache " in part and " -x POPXL_NUM_THREADS=" in part


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-instances=2", "--num-replicas=3", "true"], "3 replicas can't be spread evenly over 2 instances"),
        (["--host=a,b", "--num-instances=3", "true"], "3 instances can't be spread evenly over 2 hosts"),
        (["--num-instances=0", "true"], "expected a positive number, not '0'"),
        (["--numa-aware=maybe", "true"], "expected yes or no, not 'maybe'"),
        (["--print-topology", "true.py"], "expected yes or no, not 'true.py'"),
        (["--only-output-from-instance=2", "--num-instances=2", "true"], "there is no instance 2 to show, only 0 to 1"),
        (["--hostfile=/nowhere", "true"], "/nowhere"),
        (["--hostfile=/dev/null", "true"], "/dev/null names no host"),
        (["--host=n[3-1]", "true"], "the range '3-1' in 'n[3-1]' runs backwards"),
        (["--host=,,", "true"], "',,' names no host"),
        (["--num-instances=\u00b2", "true"], "expected a positive number"),
        (["--mpi-global-args='-q", "true"], "--mpi-global-args: No closing quotation in \"'-q\""),
        (['--mpi-local-args="', "true"], "--mpi-local-args: No closing quotation"),
        (["--num-instances=2"], "the following arguments are required: program\n"),
    ],
)
def test_bad_options(arguments: list, message: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as error:
        poprun.main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_what_the_launcher_told_must_be_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("two", "\u00b2", "-1", ""):
        monkeypatch.setenv(_environment.TOTAL, text)
        with pytest.raises(ValueError, match=f"{_environment.TOTAL} must be a number"):
            _environment.value(_environment.TOTAL, 1)
