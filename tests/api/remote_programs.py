"""Programs that test_remote_files.py starts in processes of their own."""

import os
import pathlib
import re
import resource
import sys

import numpy as np

import popxl
from popxl import ops


def rss(folder: str, entries: str, entry_bytes: str, bound: str) -> None:
    """Prints the most memory, in bytes, that the process had while it changed all entries several times."""
    count, size = int(entries), int(entry_bytes) // 4
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((size,), popxl.float32, count)

        def step(at: popxl.Tensor):
            with popxl.in_sequence():
                ops.remote_store(buffer, at, ops.remote_load(buffer, at) + 1)
            return at + 1

        first = popxl.constant(0, popxl.uint32)
        ops.repeat(ir.create_graph(step, first), count, first)
    with popxl.Session(ir, remote_storage=popxl.RemoteStorage(folder, int(bound))) as session:
        for _ in range(3):
            session.run()
    status = pathlib.Path("/proc/self/status").read_text()
    print(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024)


def count(folder: str, sync: str, what: str) -> None:
    """Adds 1 to every entry in every run and prints how many runs were done; or prints the entries."""
    entries = 6
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((20000,), popxl.float32, entries)
        out = popxl.d2h_stream((entries, 20000), popxl.float32, "out")
        adds = popxl.h2d_stream((), popxl.float32, "adds")
        added = ops.host_load(adds)
        values = [ops.remote_load(buffer, i) + added for i in range(entries)]
        for i, value in enumerate(values):
            ops.remote_store(buffer, i, value)
        ops.host_store(out, ops.concat([ops.reshape(value, (1, 20000)) for value in values]))
    storage = popxl.RemoteStorage(folder, 300000, sync_every_run=sync == "1")
    with popxl.Session(ir, remote_storage=storage) as session:
        if what == "look":
            print(*np.unique(session.run({adds: 0})[out]))
            return
        print("ready", flush=True)
        while True:
            print(int(session.run({adds: 1})[out][0, 0]), flush=True)


def fork(folder: str) -> None:
    """Forks while a session is attached. Both processes say what they can do with it."""

    def program():
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            buffer = popxl.remote_buffer((1024,), popxl.float32, 3)
            out = popxl.d2h_stream((1024,), popxl.float32)
            values = [ops.remote_load(buffer, i) + 1 for i in range(3)]
            for i, value in enumerate(values):
                ops.remote_store(buffer, i, value)
            ops.host_store(out, values[2])
        return ir, out

    def say(line: str) -> None:
        os.write(1, f"{line}\n".encode())  # whole, beside the other process

    def attempt(work) -> None:
        try:
            work()
        except RuntimeError as error:
            say(f"child: {error}")

    def in_child(session: popxl.Session) -> None:
        attempt(session.run)
        session._pb_session._release()
        attempt(lambda: popxl.Session(program()[0], remote_storage=folder))
        ir, out = program()
        with popxl.Session(ir) as own:
            say(f"child: {own.run()[out][0]} in RAM")

    ir, out = program()
    session = popxl.Session(ir, remote_storage=popxl.RemoteStorage(folder, 5000))
    to_read, to_write = os.pipe()
    tried, has_tried = os.pipe()
    with session:
        session.run()
        child = os.fork()
        if child == 0:
            in_child(session)
            os.close(has_tried)
            os.close(to_write)
            os.read(to_read, 1)  # until the parent is done
            sys.exit()
        say(f"parent: {session.run()[out][0]}")
        os.close(has_tried)
        os.read(tried, 1)  # until the child has asked for the files, which are free for a moment then
    with session:
        say(f"parent: {session.run()[out][0]}")
    os.close(to_write)
    say(f"child ends with {os.waitpid(child, 0)[1]}")


def limited(folder: str) -> None:
    """Asks for more than the process may write."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    ir = popxl.Ir()
    with ir.main_graph:
        ops.remote_load(popxl.remote_buffer((1 << 16,), popxl.float32, 2), 0)
    popxl.Session(ir, remote_storage=folder)


def failing(folder: str, ram_bytes: str) -> None:
    """Prints what runs give before, while and after the disk takes nothing."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((1 << 16,), popxl.float32, 4)
        out = popxl.d2h_stream((4,), popxl.float32, "out")
        for i in range(4):
            value = ops.remote_load(buffer, i) + 1
            ops.remote_store(buffer, i, value)
        ops.host_store(out, value[:4])
    with popxl.Session(ir, remote_storage=popxl.RemoteStorage(folder, int(ram_bytes))) as session:
        for limit in (-1, 1 << 16, -1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
            try:
                print(session.run()[out][0])
            except RuntimeError as error:
                print(error)
                session.weights_from_host()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
