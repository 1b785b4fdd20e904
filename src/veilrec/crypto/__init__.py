"""Sums over many clients that hide every single one: fixed point, packed Paillier, masks, one interface."""

from veilrec.crypto.backends import SUMS, sum_from_bytes
from veilrec.crypto.fixed_point import FixedPoint
from veilrec.crypto.keys import KEY_BITS, PublicKey, SecretKey
from veilrec.crypto.length_proof import LengthProof
from veilrec.crypto.masked_sum import MaskedSum
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts, Encryptor, decrypt
from veilrec.crypto.paillier_sum import PaillierSum
from veilrec.crypto.parties import AGGREGATOR, Refusal, SumAggregator, SumClient
from veilrec.crypto.plain_sum import PlainSum
from veilrec.crypto.proven_sum import ShareKey
from veilrec.crypto.shared_sum import SharedSum
from veilrec.crypto.signatures import SigningKey, VerifyKey
from veilrec.crypto.sums import SecureSum, Total

__all__ = [
    "AGGREGATOR",
    "Ciphertexts",
    "Encryptor",
    "FixedPoint",
    "KEY_BITS",
    "LengthProof",
    "MaskedSum",
    "Packing",
    "PaillierSum",
    "PlainSum",
    "PublicKey",
    "Refusal",
    "SUMS",
    "SecretKey",
    "SecureSum",
    "ShareKey",
    "SharedSum",
    "SigningKey",
    "SumAggregator",
    "SumClient",
    "Total",
    "VerifyKey",
    "decrypt",
    "sum_from_bytes",
]
