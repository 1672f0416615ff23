"""Seals and opens IDs as getid does, for programs that hold the key file (docs/sealed.md has the format).

    pip install cryptography

    python3 sealed.py seal /etc/getid/order.key order base58 786829717956198794
    python3 sealed.py open /etc/getid/order.key order base58 rJv2SgqEbQ4X

`name` is the name of the generator: it is a part of the seal. `alphabet` is a word such as base58, or the characters.
"""

import hashlib
import hmac
import os
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

ID_BITS = 63
KEY_NUMBERS = 16
CHECKS_MIN = 8
# Permission bits that a key file must not have: writing by its group, and all of others.
FOREIGN_BITS = 0o027
ALPHABETS = {
    "decimal": "0123456789",
    "hex": "0123456789abcdef",
    "base32": "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    "base36": "0123456789abcdefghijklmnopqrstuvwxyz",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "base62": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
}


class SealError(ValueError):
    """Reason why an ID is not sealed, or a text is not opened. `kind` is one word for it."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


def seal(key_file, name, id, alphabet="base58"):
    """Returns the sealed text of an ID."""
    if not 0 <= id < 1 << ID_BITS:
        raise SealError("id", f"the ID {id} is not an integer of {ID_BITS} bits")
    keys, sealing = read_keys(key_file)
    characters = characters_of(alphabet)
    length, checks = shape(len(characters))
    key = keys[sealing]
    sealed_bits = ff1_encrypt(key, name.encode(), 2, bits_of(id))
    number = (sealing * checks + check_of(key, name, id, checks)) << ID_BITS | number_of(2, sealed_bits)
    digits = numerals_of(len(characters), length, number)
    return "".join(characters[digit] for digit in digits)


def open_text(key_file, name, text, alphabet="base58"):
    """Returns the ID of a sealed text, and the number of the key that sealed it."""
    keys, _ = read_keys(key_file)
    characters = characters_of(alphabet)
    length, checks = shape(len(characters))
    if len(text) != length:
        raise SealError("length", f"the text has {len(text)} characters, expected {length}")
    strange = next((character for character in text if character not in characters), None)
    if strange is not None:
        raise SealError("character",
                        f"the text has the character {strange!r}, which is not in the alphabet {characters}")
    number = number_of(len(characters), [characters.index(character) for character in text])
    key_number, check = divmod(number >> ID_BITS, checks)
    if key_number >= KEY_NUMBERS:
        raise SealError("range", "the text is no sealed ID: its number is too large")
    if key_number not in keys:
        known = ", ".join(str(number) for number in sorted(keys))
        raise SealError("key", f"the text was sealed with key {key_number}; {key_file} has the keys {known}")
    key = keys[key_number]
    sealed_bits = bits_of(number & (1 << ID_BITS) - 1)
    id = number_of(2, ff1_decrypt(key, name.encode(), 2, sealed_bits))
    if check_of(key, name, id, checks) != check:
        raise SealError("check", f"the text was not sealed for {name!r} with key {key_number}: "
                        f"a mistyped character, another generator, or another key")
    return id, key_number


def read_keys(key_file):
    """Returns the keys by their numbers, and the number of the key that seals: the last one without `open-only`."""
    keys, sealing = {}, None
    with open(key_file, encoding="utf-8", errors="replace") as lines:
        mode = os.fstat(lines.fileno()).st_mode & 0o7777
        if mode & FOREIGN_BITS:
            raise SealError("key file", f"{key_file} is open to other users (mode {mode:o}), must not be used by "
                            f"others nor written by its group: chmod g-w,o= {key_file}")
        for place, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            number, digits = words[0], words[1] if len(words) > 1 else ""
            is_number = number.isdecimal() and int(number) < KEY_NUMBERS and int(number) not in keys
            is_key = len(digits) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
            if not (is_number and is_key and words[2:] in ([], ["open-only"])):
                raise SealError("key file", f"{key_file}, line {place}: expected 'NUMBER HEX' or 'NUMBER HEX "
                                f"open-only', with a new number of 0 to {KEY_NUMBERS - 1} and 64 hexadecimal digits")
            keys[int(number)] = bytes.fromhex(digits)
            if not words[2:]:
                sealing = int(number)
    if sealing is None:
        raise SealError("key file", f"{key_file} has no key that seals: a line 'NUMBER HEX' without open-only")
    return keys, sealing


def characters_of(alphabet):
    characters = ALPHABETS.get(alphabet, alphabet)
    if not 10 <= len(characters) <= 64 or len(set(characters)) < len(characters):
        words = ", ".join(ALPHABETS)
        raise SealError("alphabet",
                        f"the alphabet {alphabet} is no word of {words}, and not 10 to 64 characters, each once")
    return characters


def shape(radix):
    """Returns the length of texts, and the number of different checks: the shortest length with at least 8 checks."""
    length = 1
    while radix**length // (KEY_NUMBERS << ID_BITS) < CHECKS_MIN:
        length += 1
    return length, radix**length // (KEY_NUMBERS << ID_BITS)


def check_of(key, name, id, checks):
    digest = hmac.digest(key, name.encode() + b"\0" + id.to_bytes(8, "big"), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") % checks


def bits_of(id):
    return numerals_of(2, ID_BITS, id)


# FF1 of NIST SP 800-38G, section 5.1. A text is a list of numerals, the most significant first.

def ff1_encrypt(key, tweak, radix, text):
    half = len(text) // 2
    a, b = text[:half], text[half:]
    for index in range(10):
        c = number_of(radix, a) + round_value(key, tweak, radix, len(text), index, b)
        a, b = b, numerals_of(radix, len(a), c % radix ** len(a))
    return a + b


def ff1_decrypt(key, tweak, radix, text):
    half = len(text) // 2
    a, b = text[:half], text[half:]
    for index in reversed(range(10)):
        c = number_of(radix, b) - round_value(key, tweak, radix, len(text), index, a)
        a, b = numerals_of(radix, len(b), c % radix ** len(b)), a
    return a + b


def round_value(key, tweak, radix, length, index, numerals):
    """Returns y, the value of a round: steps 6.i to 6.iv of the standard, for texts whose d is at most 16."""
    u = length // 2
    v = length - u
    b = ((radix**v - 1).bit_length() + 7) // 8
    d = 4 * ((b + 3) // 4) + 4
    p = bytes([1, 2, 1]) + radix.to_bytes(3, "big") + bytes([10, u % 256])
    p += length.to_bytes(4, "big") + len(tweak).to_bytes(4, "big")
    q = tweak + bytes(-(len(tweak) + b + 1) % 16) + bytes([index]) + number_of(radix, numerals).to_bytes(b, "big")
    # PRF: the last block of AES in CBC mode that begins with zeros.
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    r = (encryptor.update(p + q) + encryptor.finalize())[-16:]
    return int.from_bytes(r[:d], "big")


def number_of(radix, numerals):
    number = 0
    for numeral in numerals:
        number = number * radix + numeral
    return number


def numerals_of(radix, length, number):
    numerals = []
    for _ in range(length):
        number, numeral = divmod(number, radix)
        numerals.append(numeral)
    return numerals[::-1]


def main(words):
    if len(words) < 5 or words[0] not in ("seal", "open"):
        sys.exit("usage: sealed.py seal KEY-FILE NAME ALPHABET ID...\n"
                 "       sealed.py open KEY-FILE NAME ALPHABET TEXT...")
    verb, key_file, name, alphabet, *values = words
    try:
        for value in values:
            if verb == "open":
                print(open_text(key_file, name, value, alphabet)[0])
            elif value.isdecimal():
                print(seal(key_file, name, int(value), alphabet))
            else:
                raise SealError("id", f"the ID {value!r} is not an integer of {ID_BITS} bits")
    except (SealError, OSError) as error:
        sys.exit(f"sealed.py: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
