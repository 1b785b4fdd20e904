"""`Job`: everything one fit is given."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from veilrec.core import atomic_path, check, write_json
from veilrec.data import Dataset
from veilrec.privacy import Noise, Reservation, UnboundedEvent, new_token
from veilrec.training.folder import NOTES, check_writable, sync
from veilrec.training.guard import STOPPING, DataGuard

Array = NDArray[Any]
_ANEW = (
    "Choose another folder, or delete the whole folder to start anew: noise that is drawn anew is spent anew."
)


MOST_LAYERS = 1000


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything one fit is given: data, seed, device, where to keep checkpoints, whether to show bars.

    ``noise`` is where mechanisms draw from, ``guard`` the way of a private system to its users' data: its
    ``train`` and ``valid`` have ids and no facts.

    >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
    >>> Job(data, None, seed=1, device="cpu", checkpoint=None, progress=False).log
    []
    """

    train: Dataset
    valid: Dataset | None
    seed: int
    device: str
    checkpoint: Path | None
    progress: bool
    log: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    noise: Noise = dataclasses.field(default_factory=Noise.secure)
    guard: DataGuard | None = None
    key: str = ""
    """Of all that the fit depends on (:func:`fit_key`): what has another key was kept by another fit."""
    held: list[Reservation] = dataclasses.field(default_factory=list)
    """What pays for the fit, if it draws noise; the folder and the ledger agree by a token (:meth:`keep`)."""
    salt: str = ""
    """Of the key: drawn for each folder, so that keys of the same data differ from folder to folder."""

    # -- data -----------------------------------------------------------------------------------------

    def validation(self) -> Dataset | None:
        """The validation data, if there are any; of a private system this is a look that its guard notes.

        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> len(Job(data, data, 1, "cpu", None, False).validation())
        2
        """
        if self.valid is None or self.guard is None:
            return self.valid
        return self.guard.take("validation", STOPPING)

    def take_bare(self, part: str, event: UnboundedEvent, only: Iterable[str] | None = None) -> Dataset:
        """A part of the data for a use that no noise covers: the statement gets the event that says so.

        >>> guard = DataGuard(Dataset.from_arrays(["ann", "bob"], ["tea", "mate"]))
        >>> job = Job(guard.public, None, 1, "cpu", None, False, guard=guard)
        >>> len(job.take_bare("interactions", UnboundedEvent(reason="labels are true", label="labels")))
        2
        >>> [event.label for event in job.noise.events]
        ['labels']
        """
        assert self.guard is not None
        self.noise.record(event)
        return self.guard.take(part, event.label, only)

    # -- the checkpoint folder ------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """Where the folder keeps what has a name.

        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> Job(data, None, 1, "cpu", Path("folder"), False).file("round 3").name
        'round-3.safetensors'
        """
        assert self.checkpoint is not None
        return self.checkpoint / f"{name.replace(' ', '-')}.safetensors"

    def keep(self, name: str, arrays: Mapping[str, Array], notes: Mapping[str, str]) -> None:
        """Write arrays and notes under this fit's key: the old file or the new, never a half.

        In a fit that is paid for the ledger gets a new token first: from now on it refuses every copy that
        was made of the folder, in which the same would be drawn once more.

        >>> import tempfile
        >>> import numpy as np
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.keep("state", {"x": np.ones(2)}, {"epoch": "3"})
        >>> job.read_kept("state")[0]["epoch"]
        '3'
        """
        from safetensors.numpy import save_file

        file = self.file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not (file.parent / NOTES).exists():
            self._note()  # the salt of the key first: without it nothing that is kept could be read back
        changed = {}
        if self.held:
            tokens, token = self.new_token()
            self.held[0].ledger.pass_on([one.id for one in self.held], tokens, token)
            changed["tokens"] = [token]
        with atomic_path(file) as temporary:
            save_file(dict(arrays), temporary, metadata={"key": self.key, **notes})
        self._note(files=sorted({*self._notes()["files"], file.name}), **changed)

    def read_kept(self, name: str) -> tuple[dict[str, str], dict[str, Array]]:
        """Notes and arrays that this fit has kept under a name; those of another fit are refused.

        >>> import tempfile
        >>> import numpy as np
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.keep("state", {"x": np.ones(2)}, {})
        >>> dataclasses.replace(job, key="another").read_kept("state")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: checkpoint must be of the same model, settings, data, seed and kind of noise, got ...
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.file(name), framework="numpy") as saved:
                notes = saved.metadata() or {}
                self._check_key(notes.get("key"), self.file(name))
                arrays = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(
                f"{self.file(name)}: checkpoint must be readable, got {error}. {_ANEW}"
            ) from error
        return notes, arrays

    def check_folder(self) -> None:
        """Refuse a folder of another fit, or one of which something is missing, before anything is spent.

        >>> import tempfile
        >>> import numpy as np
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.keep("state", {"x": np.ones(2)}, {})
        >>> job.file("state").unlink()
        >>> job.check_folder()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: ...: checkpoint must be whole, got none of state.safetensors. Choose another folder, ...
        """
        if self.checkpoint is None:
            return
        check_writable(self.checkpoint)
        found = self._notes()
        if found["files"] or found["ended"] or found["reservations"]:
            self._check_key(found["key"], self.checkpoint)
        for name in found["files"]:
            if not (self.checkpoint / name).exists():
                raise ValueError(f"{self.checkpoint}: checkpoint must be whole, got none of {name}. {_ANEW}")
        for file in sorted(self.checkpoint.glob("*.safetensors")):
            self.read_kept(file.stem)

    @property
    def reservations(self) -> list[str]:
        """Of the ledger, by which this fit was paid: as long as the folder is whole it pays once."""
        return [] if self.checkpoint is None else list(self._notes()["reservations"])

    def paid(self, reservations: Sequence[str], token: str) -> None:
        """Note by which reservations the fit is paid, and their token in the ledger.

        >>> import tempfile
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.paid(["7"], "t")
        >>> job.reservations
        ['7']
        """
        if self.checkpoint is not None:
            self._note(reservations=list(reservations), tokens=[token])

    def new_token(self) -> tuple[list[str], str]:
        """The tokens that are noted, and a new one, which is noted beside them.

        Then the ledger gets it, and then :meth:`paid` notes it alone. Whoever is killed in between can go on:
        one of those that are noted is the ledger's.

        >>> import tempfile
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.paid(["7"], "t")
        >>> tokens, token = job.new_token()
        >>> tokens, job.new_token()[0] == ["t", token]
        (['t'], True)
        """
        tokens, token = list(self._notes()["tokens"]), new_token()
        self._note(tokens=[*tokens, token])
        assert self.checkpoint is not None
        sync(self.checkpoint)
        return tokens, token

    @property
    def ended(self) -> bool:
        """Whether the folder is that of a fit that has ended: everything is kept, nothing will be drawn."""
        return self.checkpoint is not None and bool(self._notes()["ended"])

    def end(self) -> None:
        """Note that the fit has ended.

        >>> import tempfile
        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> job = Job(data, None, 1, "cpu", Path(tempfile.mkdtemp()), False, key="this fit")
        >>> job.end()
        >>> job.ended
        True
        """
        if self.checkpoint is not None:
            self._note(ended=True)

    def _notes(self) -> dict[str, Any]:
        assert self.checkpoint is not None
        file = self.checkpoint / NOTES
        if not file.exists():
            return {
                "key": self.key,
                "salt": self.salt,
                "files": [],
                "reservations": [],
                "tokens": [],
                "ended": False,
            }
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file}: checkpoint must be readable, got {error}. {_ANEW}") from error
        parts = {"key", "salt", "files", "reservations", "tokens", "ended"}
        if not isinstance(found, dict) or not parts <= found.keys():
            raise ValueError(f"{file}: checkpoint must be readable, got notes without their parts. {_ANEW}")
        return found

    def _note(self, **changed: Any) -> None:
        assert self.checkpoint is not None
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        write_json(self.checkpoint / NOTES, {**self._notes(), **changed})

    def _check_key(self, key: object, where: Path) -> None:
        same = "of the same model, settings, data, seed and kind of noise"
        check(bool(self.key) and key == self.key, "checkpoint", same, str(where), _ANEW)


def check_sizes(settings: Mapping[str, Any]) -> None:
    """Refuse budgets and rates of a size that no fit can work with, before anything is spent.

    >>> check_sizes({"epsilon": 1e-12})
    Traceback (most recent call last):
        ...
    ValueError: epsilon must be from 1e-06 to 1e+12, got 1e-12. With less nothing is told.
    """
    for name, value in settings.items():
        if name.endswith("epsilon") and isinstance(value, int | float):
            remedy = "With less nothing is told." if value < 1 else "With more nothing is hidden."
            check(1e-6 <= value <= 1e12, name, "from 1e-06 to 1e+12", value, remedy)
        if name == "layers":
            check(value <= MOST_LAYERS, name, f"at most {MOST_LAYERS}", value, "2 to 4 are usual.")
        if name == "learning_rate":
            check(value <= 1e3, name, "at most 1000", value, "0.001 to 0.1 is usual.")


def check_device(device: str) -> None:
    """Refuse a device that there is not, before anything is spent.

    >>> check_device("nonsense")
    Traceback (most recent call last):
        ...
    ValueError: device must be 'auto', 'cpu' or that of a GPU that is here, got 'nonsense'. Say auto.
    """
    if device in ("auto", "cpu"):
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        check(False, "device", "'auto', 'cpu' or that of a GPU that is here", device, "Say auto.")


def folder_salt(folder: Path | None) -> str:
    """The salt of a checkpoint folder: the one it keeps, or a new one.

    >>> folder_salt(None) == folder_salt(None)
    False
    """
    if folder is not None:
        with suppress(OSError, ValueError):  # what cannot be read is refused later, by name
            kept = json.loads((folder / NOTES).read_text(encoding="utf-8"))
            if isinstance(kept, dict) and isinstance(kept.get("salt"), str):
                return str(kept["salt"])
    return secrets.token_hex(32)


def fit_key(
    word: str, settings: Mapping[str, Any], seed: int, data: str, valid: str | None, grade: str, salt: str
) -> str:
    """The key of a fit: model, settings, seed, fingerprints of both data, the grade of noise, and a salt.

    Fingerprints are functions of private data, and a folder may be copied. With a salt that is drawn for each
    folder, keys tell nobody that two folders are of the same data; and by a slow hash who has a folder and
    guesses at its data pays for each guess.

    >>> of = "bpr", {"epochs": 9}, 0, "fingerprint", None, "secure"
    >>> fit_key(*of, "salt") == fit_key(*of, "salt"), fit_key(*of, "salt") == fit_key(*of, "another")
    (True, False)
    """
    about = [word, dict(settings), seed, data, valid, grade]
    plain = json.dumps(about, sort_keys=True, default=str).encode()
    return hashlib.scrypt(plain, salt=salt.encode(), n=1 << 13, r=8, p=1, dklen=32).hex()
