"""Check digits that getid gives are those of stdnum, and numbers that stdnum completes are read by getid."""

import os
import random

import redis
from stdnum import damm, iso11649, luhn, verhoeff
from stdnum.iso7064 import mod_11_2, mod_37_36, mod_97_10

ids = redis.Redis(port=int(os.environ["GETID_PORT"]), decode_responses=True)


def digits(text):
    """What a rule over digits covers."""
    return "".join(letter for letter in text if letter.isdigit())


def letters(text):
    """What a rule over digits and letters covers."""
    return "".join(letter for letter in text.upper() if letter.isalnum())


# The library's check digits of a text, and its opinion of a whole number, for the generator of each rule.
RULES = {
    "luhn": (lambda text: luhn.calc_check_digit(digits(text)), lambda text: luhn.is_valid(digits(text))),
    "damm": (lambda text: damm.calc_check_digit(digits(text)), lambda text: damm.is_valid(digits(text))),
    "verhoeff": (lambda text: verhoeff.calc_check_digit(digits(text)), lambda text: verhoeff.is_valid(digits(text))),
    "mod11-2": (
        lambda text: mod_11_2.calc_check_digit(digits(text)),
        lambda text: mod_11_2.is_valid(digits(text[:-1]) + text[-1]),
    ),
    "mod97": (lambda text: mod_97_10.calc_check_digits(letters(text)), lambda text: mod_97_10.is_valid(letters(text))),
    "mod37-36": (lambda text: mod_37_36.calc_check_digit(letters(text)), lambda text: mod_37_36.is_valid(letters(text))),
}


def value_of(text, name):
    """The value of a number, as the server reads it."""
    fields = ids.execute_command("DECODEID", text, name)
    fields = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2]))
    return int(fields["value"])


def is_refused(text, name):
    """Whether the server finds that only the check digits are wrong."""
    try:
        ids.execute_command("DECODEID", text, name)
    except redis.ResponseError as error:
        return "do not match the rest" in str(error)
    return False


def numbers(name):
    """Numbers of the server, in the neighbourhood of nine values of one to seventeen digits."""
    for power in range(1, 18, 2):
        # Above the hundred numbers after the value before, since a sequence never goes back.
        ids.execute_command("SEQUENCE", "RAISE", name, random.randrange(2 * 10 ** (power - 1), 10**power))
        yield from ids.execute_command("MGETID", 100, name)


for name, (complete, is_valid) in RULES.items():
    width = 2 if name == "mod97" else 1
    for text in numbers(name):
        assert is_valid(text), (name, text)
        assert complete(text[:-width]) == text[-width:], (name, text)
    for value in [0, 1, 10**18 - 1, *(random.randrange(10**18) for _ in range(100))]:
        text = f"Inv-{value:018}-"
        text += complete(text)
        assert value_of(text, name) == value, (name, text)
        place = len("Inv-") + random.randrange(18)
        wrong = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        assert is_refused(wrong, name) and not is_valid(wrong), (name, wrong)
    print("ok", name)

for text in numbers("rf"):
    assert iso11649.is_valid(text) and iso11649.format(text).replace(" ", "") == text, text
    assert iso11649.is_valid(iso11649.format(text)), text
    assert is_refused(text[:2] + f"{(int(text[2:4]) + 1) % 100:02}" + text[4:], "rf"), text
assert value_of("RF18539007547034", "short-rf") == 7_547_034
print("ok rf")
