"""URLs."""

import os
import socket
import unittest
from unittest import mock

from getid._address import Address, parse_url


class TestAddress(unittest.TestCase):
    def test_accepted(self) -> None:
        cases = {
            "getid://a": ([("a", 7890)], None, None),
            "getid://a:1,b,[::1]:65535,[::2]?order=given": (
                [("a", 1), ("b", 7890), ("::1", 65535), ("::2", 7890)],
                None,
                None,
            ),
            "getid://u:p@a/": ([("a", 7890)], b"u", b"p"),
            "getid://:p%40%2f@a": ([("a", 7890)], None, b"p@/"),
            "getid://us%C3%A9r:p:q@a": ([("a", 7890)], "us\u00e9r".encode(), b"p:q"),
        }
        for url, (addresses, user, password) in cases.items():
            with self.subTest(url):
                target = parse_url(url)
                self.assertEqual([(address.host, address.port) for address in target.addresses], addresses)
                self.assertEqual((target.user, target.password, target.is_tls), (user, password, False))
        self.assertTrue(parse_url("getids://a").is_tls)
        self.assertEqual(parse_url("getid+unix:///run/g%20d.sock").addresses, (Address("/run/g d.sock", 0, True),))
        self.assertEqual(str(parse_url("getid://[::1]:5").addresses[0]), "[::1]:5")

    def test_refused_without_the_password(self) -> None:
        urls = [
            "",
            "a:7890",
            "redis://secret@a",
            "getid://",
            "getid://a,,b",
            "getid://a:0",
            "getid://a:65536",
            "getid://u:secret",
            "getid://u:secret:x",
            "getid://u:secret%@a",
            "getid://u:secret%zz@a",
            "getid://secret@a",
            "getid://a?x=secret",
            "getid://u:pa?secret@a",
            "getid://a?order=secret",
            "getid+unix://secret",
            "getid://[secret",
            "getid://[::1]secret",
            "getid://a:\u0663",
            "getid://" + "a," * 64 + "a",
            "getid://" + "a" * 20_000,
        ]
        for url in urls:
            with self.subTest(url[:40]), self.assertRaises(ValueError) as caught:
                parse_url(url)
            self.assertNotIn("secret", str(caught.exception))
            self.assertLess(len(str(caught.exception)), 200)
        with self.assertRaises(TypeError):
            parse_url(7)  # type: ignore[arg-type]
        self.assertNotIn("secret", repr(parse_url("getid://u:secret@a")))

    def test_shuffled_unless_given(self) -> None:
        hosts = ",".join(f"h{number}" for number in range(50))
        given = [address.host for address in parse_url(f"getid://{hosts}?order=given").addresses]
        self.assertEqual(given, hosts.split(","))
        shuffled = [address.host for address in parse_url(f"getid://{hosts}").addresses]
        self.assertNotEqual(shuffled, given)
        self.assertEqual(sorted(shuffled), sorted(given))

    def test_environment(self) -> None:
        with mock.patch.dict(os.environ, {"GETID_URL": "getid://env:1"}):
            self.assertEqual(parse_url().addresses, (Address("env", 1),))
            self.assertEqual(parse_url("getid://a").addresses, (Address("a", 7890),))
        with mock.patch.dict(os.environ):
            os.environ.pop("GETID_URL", None)
            self.assertEqual(parse_url().addresses, (Address("127.0.0.1", 7890),))


class TestPlatforms(unittest.TestCase):
    @unittest.skipUnless(hasattr(socket, "AF_UNIX"), "this platform is the case itself")
    def test_without_unix_sockets(self) -> None:
        self.addCleanup(setattr, socket, "AF_UNIX", socket.AF_UNIX)
        del socket.AF_UNIX
        with self.assertRaisesRegex(ValueError, "this platform has no Unix sockets, the url must be as in 'getid://"):
            parse_url("getid+unix:///run/getid.sock")
        self.assertEqual(parse_url("getid://a").addresses, (Address("a", 7890),))
