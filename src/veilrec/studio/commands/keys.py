"""`veilrec keys new | verify`: who signed a model, and whether it is still what was signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilrec.studio.commands.base import Json, emit


def group() -> None:
    """Keys that sign models."""


def new(
    name: Annotated[Path, typer.Argument(help="Where: NAME.key stays with you, NAME.pub is for everybody.")],
    as_json: Json = False,
) -> None:
    """Make a pair of keys: the secret one signs models, the public one checks signatures."""
    from veilrec.crypto import SigningKey

    key = SigningKey.generate()
    secret, public = key.save(name)
    if as_json:
        emit({"secret": str(secret), "public": str(public), "fingerprint": key.public.fingerprint})
        return
    typer.echo(f"{secret}  sign with it: veilrec fit ... --sign {secret}. Show it to nobody.")
    typer.echo(f"{public}  give it to whoever is to check: veilrec verify RUN --key {public}")
    typer.echo(f"fingerprint  {key.public.fingerprint}")


def verify(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or a .veil file.")],
    key: Annotated[
        Path | None, typer.Option("--key", help="The public key that must have signed it.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check signature, members and statement of a saved model; without --key, of whoever signed it.

    Without --key a model that somebody changed and signed anew with an own key passes: compare the
    fingerprint with what its owner told you.
    """
    from veilrec.core import DataError
    from veilrec.systems import load_model

    model = load_model(run, key=key)
    if model.signed_by is None:
        raise DataError(
            "the model must be signed, got no signature. Ask its owner for a signed one.", file=run
        )
    if as_json:
        found = {"model": model.word, "signed_by": model.signed_by, "known_key": key is not None}
        emit(found | {"protection": model.guarantee.to_dict()["protection"]})
        return
    typer.echo(f"good signature by {model.signed_by}" + ("" if key else ", a key that you have not named"))
    typer.echo(f"{model.word}: {model.guarantee.to_dict()['protection']}")
