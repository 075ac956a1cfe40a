"""bench_delay between two network namespaces: what is sent takes as long as was asked for, one way each, in order, whole, and what its
queue has no room for is counted. Runs in namespaces of its own, so that nothing is left whatever ends it.
Usage: delay_test.py bench_delay      77 where it takes root, namespaces or /dev/net/tun that are not here"""

import ctypes
import hashlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
INSIDE = "TRUESTEP_DELAY_TEST_INSIDE"

# Sends back what comes, or says what a stream's bytes come to.
ECHO = """
import hashlib, socket, sys
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("10.78.0.2", 7))
datagrams.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
stream = socket.create_server(("10.78.0.2", 7))
print("ready", flush=True)
if sys.argv[1] == "datagrams":
    while True:
        data, sender = datagrams.recvfrom(2048)
        datagrams.sendto(data, sender)
else:
    connection, _ = stream.accept()
    digest = hashlib.sha256()
    while data := connection.recv(1 << 16):
        digest.update(data)
    connection.sendall(digest.digest())
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def enter(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:  # os.setns is of Python 3.12
        raise OSError(ctypes.get_errno(), "setns")


class Delay(unittest.TestCase):
    def links(self, delay, *options):
        """Two links joined by a bridge: a, which is here, and b."""
        for name, address in (("a", "10.78.0.1/24"), ("b", "10.78.0.2/24")):
            ip("netns", "add", name)
            self.addCleanup(ip, "netns", "del", name)
        relay = self.start([PROGRAM, "--delay", delay, *options, "a:link0:port-a", "b:link0:port-b"])
        ip("link", "add", "name", "bridge0", "type", "bridge")
        self.addCleanup(ip, "link", "del", "bridge0")
        ip("link", "set", "bridge0", "up")
        for name, address in (("a", "10.78.0.1/24"), ("b", "10.78.0.2/24")):
            ip("link", "set", f"port-{name}", "txqueuelen", "10000", "master", "bridge0", "up")
            ip("-n", name, "addr", "add", address, "dev", "link0")
            ip("-n", name, "link", "set", "link0", "txqueuelen", "10000", "up")
        return relay

    def start(self, command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.wait()
            process.stdout.close()
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def in_a(self, kind):
        """A socket in a, with b answering."""
        self.start(["ip", "netns", "exec", "b", sys.executable, "-c", ECHO, kind])
        with open("/proc/self/ns/net", "rb") as here, open("/run/netns/a", "rb") as there:
            enter(there)
            try:
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "datagrams" else socket.SOCK_STREAM)
            finally:
                enter(here)
        self.addCleanup(made.close)
        made.settimeout(20)
        made.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        made.connect(("10.78.0.2", 7))
        if kind == "datagrams":
            made.send(b"first")  # with it b's address is known: until then a kernel keeps only a few
            made.recv(2048)
        return made

    def end(self, relay):
        relay.send_signal(signal.SIGTERM)
        told = relay.stdout.read()
        self.assertEqual(relay.wait(), 0)
        match = re.fullmatch(r"held back: (\d+) frames, \d+ bytes; (\d+) dropped in the queue, (\d+) by a device; late .*\n", told)
        self.assertTrue(match, told)
        return tuple(map(int, match.groups()))

    def test_there_and_back_take_it_twice(self):
        for delay, seconds in (("0.1ms", 1e-4), ("20ms", 2e-2)):
            with self.subTest(delay=delay):
                relay = self.links(delay)
                pinged = self.in_a("datagrams")
                times = []
                for number in range(30):
                    begin = time.perf_counter()
                    pinged.send(b"%d" % number)
                    self.assertEqual(pinged.recv(2048), b"%d" % number)
                    times.append(time.perf_counter() - begin)
                self.assertGreaterEqual(min(times), 2 * seconds)
                # The quickest of thirty: others on the machine only ever add.
                self.assertLess(min(times), 2 * seconds + 5e-3)
                held, dropped, _ = self.end(relay)
                self.assertGreaterEqual(held, 60)
                self.assertEqual(dropped, 0)
                self.doCleanups()

    def test_nothing_is_overtaken_lost_or_cut(self):
        relay = self.links("5ms")
        sent = self.in_a("datagrams")
        for number in range(300):
            sent.send(number.to_bytes(4, "big") + bytes(1000))
        numbers = [int.from_bytes(sent.recv(2048)[:4], "big") for _ in range(300)]
        self.assertEqual(numbers, list(range(300)))
        self.assertEqual(self.end(relay)[1:], (0, 0))

    def test_a_stream_in_large_frames_is_whole(self):
        relay = self.links("1ms")
        stream = self.in_a("stream")
        data = os.urandom(1 << 20) * 32
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        self.assertEqual(stream.recv(64), hashlib.sha256(data).digest())
        held = self.end(relay)[0]
        self.assertLess(held, len(data) / 1448, "frames are packets: what should go whole has been cut")

    def test_what_the_queue_cannot_hold_is_dropped_and_counted(self):
        # What comes back goes through the same queue, and a frame never lies over its end: of 400000 bytes at least 400000 less twice
        # the largest frame are of use, 250 datagrams' worth. The delay is long, so that a sender who is kept waiting has sent all before
        # the first is due.
        relay = self.links("400ms", "--queue", "400000")
        sent = self.in_a("datagrams")
        count, last = 1000, 1000
        for number in range(count):
            sent.send(number.to_bytes(4, "big") + bytes(1000))
        # Others may keep the machine for longer than any pause says. Nothing is overtaken: when one that was sent last
        # is back, all that was to come has come.
        sent.settimeout(1)
        numbers = []
        for _ in range(60):
            try:
                while last not in numbers:
                    numbers.append(int.from_bytes(sent.recv(2048)[:4], "big"))
                break
            except TimeoutError:
                sent.send(last.to_bytes(4, "big"))
        self.assertEqual(numbers.pop(), last)
        self.assertGreater(len(numbers), 100)
        self.assertLess(len(numbers), 900)
        self.assertEqual(numbers, sorted(numbers))
        self.assertGreaterEqual(self.end(relay)[1], count - len(numbers))

    def test_its_devices_go_with_it(self):
        relay = self.links("1ms")
        self.assertTrue(pathlib.Path("/sys/class/net").exists())
        relay.kill()
        relay.wait()
        for where in (["ip", "-n", "a", "link"], ["ip", "link"]):
            self.assertNotRegex(subprocess.run(where, capture_output=True, text=True, check=True).stdout, "link0|port-")

    def test_bad_use_is_one_line(self):
        for arguments, words in ((["--delay", "1ms", "nowhere"], "link 'nowhere' is not one"),
                                 (["--delay", "1ms", "--queue", "5", "a:x:y"], "namespace"),
                                 (["--delay", "1ms", "nobody:x:y"], "/run/netns/nobody: No such file")):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            if "--queue" not in arguments:
                self.assertIn(words, done.stderr)


def main():
    if INSIDE in os.environ:
        subprocess.run("mount -t tmpfs none /run && mkdir -p /run/netns && mount -t sysfs none /sys && ip link set lo up", shell=True, check=True)
        unittest.main(argv=[sys.argv[0], "-v"])
    if os.geteuid() != 0:
        print("delay_test: SKIPPED: network namespaces need root")
        sys.exit(77)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        print("delay_test: SKIPPED: there is no /dev/net/tun")
        sys.exit(77)
    tried = subprocess.run("unshare --net --mount sh -c 'mount -t tmpfs none /run && mkdir /run/netns && ip netns add a && "
                           "ip link add name bridge0 type bridge'", shell=True, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        print(f"delay_test: SKIPPED: {(tried.stderr.strip() or 'no namespaces can be made here').splitlines()[-1]}")
        sys.exit(77)
    os.environ[INSIDE] = "yes"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", sys.executable, *sys.argv])


if __name__ == "__main__":
    main()
