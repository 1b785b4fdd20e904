"""`attack`: one word for each kind of attack on a fitted recommender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veilrec.attacks.attribute import attribute_attack
from veilrec.attacks.links import link_attack
from veilrec.attacks.links_knowledge import Linkable
from veilrec.attacks.membership import membership_attack
from veilrec.core import check_choice
from veilrec.data import Dataset, Split

ATTACKS: dict[str, Callable[..., Any]] = {
    "attribute": attribute_attack,
    "links": link_attack,
    "membership": membership_attack,
}


def attack(model: Linkable, data: Dataset | Split, kind: str = "attribute", **settings: Any) -> Any:
    """Attack a fitted recommender with the histories in ``data``; ``settings`` are those of the kind.

    ``kind`` "attribute": :func:`veilrec.attacks.attribute_attack`, who are they; "links":
    :func:`veilrec.attacks.link_attack`, what did they do; "membership":
    :func:`veilrec.attacks.membership_attack`, which of what they did was trained on.

    >>> import veilrec as vr
    >>> data = vr.synthetic(users=150, items=80, interactions=3000)
    >>> found = vr.attack(vr.Popularity().fit(data), data, "attribute", target="gender", attackers="tree")
    >>> found.outcome("gender", "tree", "majority class").mean("auc")
    0.5
    """
    check_choice("kind", kind, ATTACKS)
    return ATTACKS[kind](model, data, **settings)
