"""Runs a program in several processes, each with its share of the replicas: `poprun [options] program [arguments]`.

A wrapper of Open MPI's `mpirun`. Hosts other than this one are reached as `mpirun` reaches them, by ssh.
"""

import argparse
import collections
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from typing import IO, DefaultDict, Deque, List, Optional, Sequence, Tuple

from popdist import _environment as _env

#: Options about hardware that is not there.
_HARDWARE_FLAGS = ("num-ilds", "vipu-server-host", "vipu-server-port", "vipu-server-timeout", "vipu-partition",
                   "vipu-partition-attempts", "vipu-cluster", "vipu-allocation", "update-partition", "reset-partition",
                   "remove-partition", "offline-mode")  # fmt: skip
#: Variables that every instance gets as they are here, whichever host it is on.
_PASSED_ON = re.compile(r"(POPXL|POPART|POPDIST|PYTHON|VIRTUAL_ENV$|PATH$|LD_LIBRARY_PATH$)")
_TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:?")
#: What is said of the process that made the run end.
_CULPRIT = re.compile(r"process rank (\d+)|Process name: \[\[\d+,\d+\],(\d+)\]|instance (\d+) has ended without it")
_MOST_HOSTS = 1 << 16  # more are a slip of the pen
_KEPT_LINES = 20  # of the output that is not shown, in case the run fails


@dataclasses.dataclass(frozen=True)
class Instance:
    """One process of a run."""

    index: int
    host: str  # "" for this one
    local_index: int  # among the instances of its host
    first_replica: int
    num_replicas: int
    threads: int

    def __str__(self) -> str:
        last = self.first_replica + self.num_replicas - 1
        replicas = f"replica {last}" if self.num_replicas == 1 else f"replicas {self.first_replica} to {last}"
        return f"instance {self.index} ({replicas}, host {self.host or 'localhost'})"


def _flag(text: str) -> bool:
    """Reads yes or no in the forms that launchers take."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise argparse.ArgumentTypeError(f"expected yes or no, not {text!r}")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, not {text!r}")
    return int(text)


def _words(text: str) -> List[str]:
    """Cuts arguments apart as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error} in {text!r}") from error


def expand_hosts(text: str) -> List[str]:
    """Returns the names in a list like "a,node[0-2,4]"; none for "".

    Raises:
        ValueError: A bracket is not closed, a range is none or runs backwards, or there are no hosts or too many.
    """
    hosts: List[str] = []
    for item in re.findall(r"[^,\[\]]+(?:\[[^\[\]]*\][^,\[\]]*)?|[\[\]]", text):
        parts = re.fullmatch(r"([^\[\]]+)(?:\[([^\[\]]+)\]([^\[\]]*))?", item)
        if parts is None:
            raise ValueError(f"{text!r} is no list of hosts like host0,host1 or host[0-2,4]")
        prefix, ranges, suffix = parts.group(1), parts.group(2), parts.group(3) or ""
        if ranges is None:
            hosts.append(prefix)
            continue
        for piece in ranges.split(","):
            bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", piece)
            if bounds is None:
                raise ValueError(f"{piece!r} in {text!r} is no number or range of numbers")
            first, last = bounds.group(1), bounds.group(2) or bounds.group(1)
            count = int(last) - int(first) + 1
            if count <= 0:
                raise ValueError(f"the range {piece!r} in {text!r} runs backwards")
            if len(hosts) + count > _MOST_HOSTS:
                raise ValueError(f"{text!r} names more than {_MOST_HOSTS} hosts")
            hosts += [f"{prefix}{n:0{len(first)}}{suffix}" for n in range(int(first), int(last) + 1)]
    if text and not hosts:
        raise ValueError(f"{text!r} names no host")
    return hosts


def plan(hosts: Sequence[str], num_instances: Optional[int], num_replicas: Optional[int]) -> List[Instance]:
    """Spreads replicas evenly over instances and instances evenly over hosts, both in order.

    Args:
        hosts: Names of the hosts; this one when it is empty.
        num_instances: Number of instances; one a host when it is None.
        num_replicas: Number of replicas over all instances; one an instance when it is None.

    Raises:
        ValueError: Something can't be spread evenly.
    """
    places = list(hosts) or [""]
    count = num_instances or len(places)
    replicas = num_replicas or count
    if replicas % count != 0:
        raise ValueError(f"{replicas} replicas can't be spread evenly over {count} instances")
    if count % len(places) != 0:
        raise ValueError(f"{count} instances can't be spread evenly over {len(places)} hosts")
    each, on_host = replicas // count, count // len(places)
    threads = max(1, len(os.sched_getaffinity(0)) // on_host)
    return [Instance(i, places[i // on_host], i % on_host, i * each, each, threads) for i in range(count)]


def _variables(instance: Instance, total: int, options: argparse.Namespace) -> List[str]:
    """Returns mpirun's arguments for the environment of an instance."""
    own = {
        _env.TOTAL: total,
        _env.LOCAL: instance.num_replicas,
        _env.OFFSET: instance.first_replica,
        _env.IPUS: options.ipus_per_replica,
        _env.LOCAL_INSTANCE: instance.local_index,
    }
    if "POPXL_NUM_THREADS" not in os.environ:
        own["POPXL_NUM_THREADS"] = instance.threads
    if options.executable_cache_path:
        own["POPXL_CACHE_DIR"] = options.executable_cache_path
    passed = {name: value for name, value in os.environ.items() if _PASSED_ON.match(name) and name not in own}
    arguments: List[str] = []
    for name, value in {**passed, **own}.items():
        arguments += ["-x", f"{name}={value}"]
    return arguments


def mpirun_command(instances: Sequence[Instance], options: argparse.Namespace) -> List[str]:
    """Returns the command that starts all instances."""
    command = ["mpirun", "--oversubscribe", "--tag-output"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    command += ["--map-by", "numa", "--bind-to", "numa"] if options.numa_aware else ["--bind-to", "none"]
    command += options.mpi_global_args
    total = sum(i.num_replicas for i in instances)
    for i in instances:
        if i.index > 0:
            command.append(":")
        command += ["-np", "1", *(["-host", i.host] if i.host else []), *_variables(i, total, options)]
        command += [*options.mpi_local_args, options.program, *options.arguments]
    return command


class Output:
    """Passes on what instances print, without mpirun's tags; keeps the end of what is not to be shown."""

    def __init__(self, shown: Optional[int]) -> None:
        self.shown = shown
        self.hidden: Deque[Tuple[int, str]] = collections.deque(maxlen=_KEPT_LINES)
        self.culprit: Optional[int] = None

    def forward(self, source: IO[str], to: IO[str]) -> None:
        """Reads until the end. What has no tag is mpirun's own; the tagged pieces of a line need not come together."""
        begun: DefaultDict[int, str] = collections.defaultdict(str)
        for line in source:
            own, *pieces = _TAG.split(line)
            if own:
                self._pass_on(None, own, to)
            for rank, text in zip(map(int, pieces[::2]), pieces[1::2]):
                begun[rank] += text
                if text.endswith("\n"):
                    self._pass_on(rank, begun.pop(rank), to)
        for rank, text in begun.items():
            self._pass_on(rank, text, to)

    def _pass_on(self, rank: Optional[int], line: str, to: IO[str]) -> None:
        found = _CULPRIT.search(line)
        if found is not None and self.culprit is None:
            self.culprit = int(next(filter(None, found.groups())))
        if rank is not None and self.shown is not None and rank != self.shown:
            self.hidden.append((rank, line))
            return
        to.write(line)
        to.flush()


def _run(command: Sequence[str], instances: Sequence[Instance], shown: Optional[int]) -> int:
    """Runs mpirun and returns its exit status; tells which instance ended a run that failed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())  # not only this process ends
    output = Output(shown)
    readers = [
        threading.Thread(target=output.forward, args=(process.stdout, sys.stdout)),
        threading.Thread(target=output.forward, args=(process.stderr, sys.stderr)),
    ]
    for reader in readers:
        reader.start()
    try:
        for reader in readers:
            reader.join()
    except KeyboardInterrupt:
        process.terminate()
        for reader in readers:
            reader.join()
    status = process.wait()
    if status != 0:
        for index, line in output.hidden:
            sys.stderr.write(f"instance {index}: {line}")
        who = str(instances[output.culprit]) if output.culprit is not None else "an instance"
        sys.stderr.write(f"poprun: {who} failed first; the run has ended with status {status}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("poprun", description=__doc__, allow_abbrev=False)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-H", "--host", default="", help="host0,host1 or host[0-2,4]; this one if none")
    where.add_argument("--hostfile", help="file with the name of a host on each line")
    parser.add_argument("--num-replicas", type=_positive, help="number of replicas; one an instance if not given")
    parser.add_argument("--num-instances", type=_positive, help="number of processes; one a host if not given")
    parser.add_argument("--ipus-per-replica", type=_positive, default=1, help="number of devices of a replica")
    parser.add_argument("--executable-cache-path", help="folder of compiled programs")
    parser.add_argument("--mpi-global-args", type=_words, default=[], help="arguments of mpirun for all instances")
    parser.add_argument(
        "--mpi-local-args", type=_words, default=[], help="arguments of mpirun that are repeated for each instance"
    )
    parser.add_argument("--numa-aware", type=_flag, default=False, help="bind instances to NUMA nodes in turn")
    parser.add_argument(
        "--print-topology",
        type=_flag,
        nargs="?",
        const=True,
        default=False,
        help="print which instance has what, first; no program is needed then",
    )
    parser.add_argument("--only-output-from-instance", type=int, help="show the others only if the run fails")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the mpirun command")
    for name in _HARDWARE_FLAGS:
        parser.add_argument(f"--{name}", nargs="?", const="", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="?", help="what to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _hosts(options: argparse.Namespace) -> List[str]:
    if not options.hostfile:
        return expand_hosts(options.host)
    with open(options.hostfile) as file:
        hosts = [line.split()[0] for line in file if line.split() and not line.startswith("#")]
    if not hosts:
        raise ValueError(f"{options.hostfile} names no host")
    return hosts


def _print_topology(instances: Sequence[Instance]) -> None:
    from popxl.utils import table_to_string

    rows = [("instance", "host", "replicas", "threads")]
    for i in instances:
        last = i.first_replica + i.num_replicas - 1
        rows.append((str(i.index), i.host or "localhost", f"{i.first_replica}..{last}", str(i.threads)))
    print(table_to_string(rows), flush=True)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs `poprun` with these arguments, those of the command line if None; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    ignored = [name for name in _HARDWARE_FLAGS if getattr(options, name.replace("-", "_")) is not None]
    if ignored:
        sys.stderr.write(f"poprun: there is no such hardware here, ignored: {', '.join('--' + n for n in ignored)}\n")
    try:
        instances = plan(_hosts(options), options.num_instances, options.num_replicas)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    shown = options.only_output_from_instance
    if shown is not None and not 0 <= shown < len(instances):
        parser.error(f"there is no instance {shown} to show, only 0 to {len(instances) - 1}")
    if options.print_topology:
        _print_topology(instances)
    if options.program is None:
        if options.print_topology:
            return 0
        parser.error("the following arguments are required: program")
    if shutil.which("mpirun") is None:
        parser.error("mpirun is not on the PATH; install Open MPI")
    command = mpirun_command(instances, options)
    if options.verbose:
        print(shlex.join(command), flush=True)
    return _run(command, instances, shown)


if __name__ == "__main__":
    sys.exit(main())
