"""The table of secure sums, and how the settings of one are read from bytes."""

from __future__ import annotations

import json
import re
from typing import Any

from veilrec.core import check, check_choice
from veilrec.crypto.fixed_point import FixedPoint
from veilrec.crypto.keys import PublicKey
from veilrec.crypto.masked_sum import MaskedSum
from veilrec.crypto.paillier_sum import PaillierSum
from veilrec.crypto.plain_sum import PlainSum
from veilrec.crypto.shared_sum import SharedSum
from veilrec.crypto.sums import SecureSum

SUMS: dict[str, type[SecureSum]] = {one.word: one for one in (PlainSum, PaillierSum, MaskedSum, SharedSum)}
_FIELDS = {"bound", "clients", "least", "length", "norm", "step", "sum"}
_MORE = {"key", "proof_key", "run"}
_REMEDY = "Send what to_bytes() of the sum gave, unchanged."


def sum_from_bytes(data: bytes, *, insecure: bool = False) -> SecureSum:
    """The sum whose settings ``to_bytes`` wrote, without any secret; short test keys only if ``insecure``.

    >>> plain = PlainSum(FixedPoint(bound=1.0, step=2**-8, clients=3), length=2)
    >>> sum_from_bytes(plain.to_bytes()) == plain
    True
    """
    check(isinstance(data, bytes), "settings of a sum", "bytes", type(data), _REMEDY)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    good = isinstance(found, dict) and set(found) - _MORE == _FIELDS
    check(good, "settings of a sum", f"JSON with {', '.join(sorted(_FIELDS))}", data[:80], _REMEDY)
    check_choice("sum", found["sum"], SUMS)
    code = FixedPoint(found["bound"], found["step"], found["clients"])
    length, least, norm = found["length"], found["least"], found["norm"]
    if found["sum"] not in (PaillierSum.word, SharedSum.word):
        return SUMS[found["sum"]](code, length, least, norm=norm)
    key, run = _bytes(found, "key"), _bytes(found, "run").hex()
    if found["sum"] == SharedSum.word:
        return SharedSum(code, length, least, norm=norm, key=key, run=run)
    proof_key = None if norm is None else _bytes(found, "proof_key")
    public = PublicKey.from_bytes(key, insecure=insecure)
    return PaillierSum(code, length, least, norm=norm, key=public, proof_key=proof_key, run=run)


def _bytes(found: dict[str, Any], name: str) -> bytes:
    text = found.get(name)
    good = isinstance(text, str) and re.fullmatch("([0-9a-f]{2})+", text) is not None
    words = f"{name} in the settings of a sum"
    check(good, words, "hexadecimal digits", str(text)[:40], _REMEDY)
    return bytes.fromhex(str(text))
