"""Checks examples/sealed/sealed.py by the samples of NIST and by getid's own vectors.

    python sealed_vectors.py FOLDER-OF-SEALED VECTORS.json
"""

import json
import os
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

with open(sys.argv[2], encoding="utf-8") as file:
    vectors = json.load(file)


def key_file(folder, sealing=None):
    """Writes the keys of the vectors to a file, of which one seals."""
    lines = (line if sealing in (None, int(line.split()[0])) else f"{line} open-only" for line in vectors["key_file"])
    path = f"{folder}/{sealing}.key"
    with open(path, "w", encoding="utf-8") as out:
        out.write("# keys\n\n" + "\n".join(lines) + "\n")
    os.chmod(path, 0o640)
    return path


with tempfile.TemporaryDirectory() as folder:
    for vector in vectors["sealed"]:
        keys = key_file(folder, vector["key"])
        name, alphabet, id, text = (vector[field] for field in ("generator", "alphabet", "id", "text"))
        assert sealed.seal(keys, name, int(id), alphabet) == text, vector
        assert sealed.open_text(keys, name, text, alphabet) == (int(id), vector["key"]), vector
    for vector in vectors["refused"]:
        try:
            opened = sealed.open_text(key_file(folder), vector["generator"], vector["text"], vector["alphabet"])
        except sealed.SealError as error:
            opened = error.kind
        assert opened == vector["error"], (vector, opened)
    for mode in (0o604, 0o644, 0o620, 0o601):
        path = key_file(folder)
        os.chmod(path, mode)
        try:
            opened = sealed.seal(path, "order", 1)
        except sealed.SealError as error:
            opened = error.kind
        assert opened == "key file", (oct(mode), opened)
print(f"ok {len(vectors['sealed'])} sealed, {len(vectors['refused'])} refused")
