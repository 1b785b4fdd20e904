"""`Recommender`: what every model of veilrec can do, whatever it protects and however it was trained.

A model is a dataclass: its fields are its settings. ``fit`` fills two dictionaries of arrays and nothing
else: ``shared`` (what may be published: weights, item vectors) and ``private`` (what belongs to the owner
of the data: user vectors). Scoring reads only these and the users' histories, so saving is writing them
down.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
import scipy.sparse as sp

from veilrec.core import CannotFoldIn, DataError, NotFitted, check, check_choice, check_count
from veilrec.crypto import SigningKey
from veilrec.data import Dataset, Ids, like, to_kind
from veilrec.metrics import rank_all
from veilrec.privacy import Claim, Guarantee, Ledger, Noise, UnboundedEvent
from veilrec.training.budget import book_reports, reserve
from veilrec.training.codes import codes_of, list_frame, rows_of
from veilrec.training.folder import alone
from veilrec.training.guard import DataGuard, strip
from veilrec.training.job import Array, Job, check_device, check_sizes, fit_key, folder_salt
from veilrec.training.layout import Layout
from veilrec.training.plan import Plan, beyond, compose, foretelling


@dataclasses.dataclass(eq=False)
class Recommender(ABC):
    """The face of every model. Subclasses are dataclasses whose fields are their settings.

    A subclass gives ``word`` (its name on the command line), ``summary`` (one line), ``_fit`` and
    ``_score``, and, where it can, ``_score_histories`` (users it has not seen) and ``_item_similarity``.

    >>> @dataclasses.dataclass(eq=False)
    ... class Newest(Recommender):
    ...     word, summary = "newest", "the items that came last, to everybody"
    ...     def _fit(self, job):
    ...         self.shared["place"] = np.arange(job.train.n_items, dtype=np.float32)
    ...     def _score(self, users):
    ...         return np.tile(self.shared["place"], (len(users), 1))
    >>> data = Dataset.from_arrays(["ann", "bob", "bob"], ["tea", "mate", "rum"])
    >>> Newest().fit(data).recommend(["bob"], k=1)["item"].to_list()
    ['tea']
    """

    word: ClassVar[str]
    summary: ClassVar[str]
    protects: ClassVar[str] = "nothing"
    """What is kept from whom, in a few words for a table of models."""
    reads: ClassVar[tuple[str, ...]] = ("interactions",)
    rates: ClassVar[bool] = False
    """Whether scores are ratings on the data's scale, so that MAE and RMSE make sense."""
    reports: ClassVar[tuple[str, ...]] = ()
    """Names of private arrays, a row per user, that are released all the same: reports with noise."""
    server_sees: ClassVar[tuple[str, ...] | None] = None
    """Names of private arrays that the server holds; None: all of them, because the server trained it."""
    describes: ClassVar[tuple[str, ...]] = ()
    """What ``facts["profile"]`` has, of models that are told of people by reports."""
    uncovered: ClassVar[tuple[str, ...]] = ()
    """Purposes for which a private system looks at data without noise: the statement names them."""
    in_floats: ClassVar[bool] = False
    """Whether its noise is a floating-point formula, which is for research whatever its source."""
    bare: ClassVar[str] = ""
    """Why no epsilon covers the interactions of a private system that makes no claim about them. The ledger
    is told: to a limit per user or interaction such a fit is an unbounded spend."""
    not_covered: ClassVar[tuple[str, ...]] = ()
    paper_claim: ClassVar[str] = ""

    shared: dict[str, Array] = dataclasses.field(default_factory=dict, init=False, repr=False)
    private: dict[str, Array] = dataclasses.field(default_factory=dict, init=False, repr=False)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)
    """What is known of the fit: data name and fingerprint, seed, seconds, epochs, validation curve."""

    _users: Ids | None = dataclasses.field(default=None, init=False, repr=False)
    _items: Ids | None = dataclasses.field(default=None, init=False, repr=False)
    _history: sp.csr_matrix | None = dataclasses.field(default=None, init=False, repr=False)
    _frame_kind: str = dataclasses.field(default="polars", init=False, repr=False)
    _statement: Guarantee | None = dataclasses.field(default=None, init=False, repr=False)
    _plan: Plan | None = dataclasses.field(default=None, init=False, repr=False)
    signed_by: str | None = dataclasses.field(default=None, init=False, repr=False)
    """Of a model that was read from a signed file: the fingerprint of the key."""

    # -- what a subclass gives ----------------------------------------------------------------------

    @abstractmethod
    def _fit(self, job: Job) -> None:
        """Fill ``shared`` and ``private``."""

    @abstractmethod
    def _score(self, users: Array) -> Array:
        """Scores [len(users), n_items] in float32 of known users, given as codes."""

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        """What a fit on a data set with these users and items will spend, before it is touched.

        A system with claims is private: its job's ``train`` has no facts, its data come from the guard, and
        the events that it draws must be those of its claims.
        """
        return ()

    def _check_data(self, public: Dataset) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse data by what is public of them, before anything is spent."""

    def _claims_after(self, noise: Noise) -> tuple[Claim, ...]:
        """Further claims about what was drawn, for systems whose price no plan can know (paper forms)."""
        return ()

    def _unclaimed(self) -> tuple[Claim, ...]:
        """What the ledger is to know beside the claims."""
        if not self.bare:
            return ()
        leak = UnboundedEvent(reason=self.bare, label="interactions without noise")
        return (Claim("one interaction", "interaction", "add-remove", "OX", ("model", "lists"), (leak,)),)

    def _layout(self) -> Layout | None:
        """The arrays that a fitted model of these settings has: only such are saved and read.

        None: finite floating-point numbers of any shape, and no other.
        """
        return None

    def _paper_claim(self) -> str:
        """What the paper claims of these settings."""
        return self.paper_claim

    def _not_covered(self) -> tuple[str, ...]:
        """What no claim covers with these settings."""
        return self.not_covered

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        """Scores [rows, n_items] in float32 of users known only by what they have interacted with."""
        others = "ease, item-knn, ials, gf-cf, lightgcn"
        if self.is_private():
            others = "pf-gnr, pf-gnr-sums, gerai, dp-gram; see `veilrec models` for what each protects"
        raise CannotFoldIn(
            f"{self.word} learns one vector per user and cannot serve a user who was not in its data. "
            f"Fit again with the new users, or use a model that can ({others})."
        )

    def _report_of(self, people: Dataset, noise: Noise) -> Array:
        """A row for each of ``people``, who have the items and attributes of the training data."""
        raise TypeError(f"{self.word} knows new users by their history alone and takes no report of them.")

    def _score_newcomers(self, histories: sp.csr_matrix, reports: Array) -> Array:
        """The same of users of whom there are reports beside, a row each (:meth:`report`)."""
        raise TypeError(f"{self.word} knows new users by their history alone. Leave reports= out.")

    def _item_similarity(self, items: Array) -> Array:
        """Similarity [len(items), n_items] in float32 of items, given as codes, to all items."""
        raise TypeError(f"{self.word} has no notion of similar items.")

    @classmethod
    def is_private(cls) -> bool:
        """Whether the model states claims and spends a budget.

        >>> import veilrec as vr
        >>> vr.EASE.is_private()
        False
        """
        return cls._claims is not Recommender._claims

    @classmethod
    def takes_reports(cls) -> bool:
        """Whether the model can be told of new users by :meth:`report`.

        >>> import veilrec as vr
        >>> vr.GERAI.takes_reports(), vr.EASE.takes_reports()
        (True, False)
        """
        return cls._report_of is not Recommender._report_of

    # -- fitting ------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}

    @alone
    def fit(
        self,
        train: Dataset,
        valid: Dataset | None = None,
        *,
        seed: int = 0,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        progress: bool = True,
        secure: bool = True,
        ledger: Ledger | None = None,
        population: str | None = None,
        new_population: bool = False,
        tuned: bool = False,
        declared_users: int | None = None,
    ) -> Self:
        """Train on ``train``; iterative models stop early on ``valid``, and only on it.

        ``checkpoint`` is a folder: an interrupted fit with the same settings, data, seed and kind of noise
        goes on from there and ends, if nothing is drawn securely, in the bits of an uninterrupted one. A
        second fit in a folder, while one is at work there, is refused.
        ``device`` is "auto" (a GPU if there is one), "cpu" or "cuda".

        Noise and sampling coins come from the operating system; only ``secure=False`` lets the seed drive
        them too, and then the statement says that the noise is for research. With a ``ledger`` the budget of
        the ``population`` (by default the name of the data) is reserved before the data are touched; data
        that are booked under another name are refused unless the caller says ``new_population=True``.
        ``tuned``: the settings were chosen on data of the same people; the statement says so.
        ``declared_users`` is the public number of users from which noise and delta are computed (None: how
        many there are today); the statement names it.
        """
        good = isinstance(train, Dataset)
        check(good, "train", "a Dataset", type(train).__name__, "Make one with veilrec.read or veilrec.load.")
        check_count("seed", seed, 0)
        check_device(device)
        check_sizes(self.settings())
        if len(train) == 0:
            raise DataError(f"{train.name} has no interactions to train on. Give at least one.")
        if valid is not None:
            same = valid.users == train.users and valid.items == train.items
            check(same, "valid", "a part of the same split as train", valid.name, "Use veilrec.split.")
        if declared_users is not None:
            check_count("declared_users", declared_users)
            train = dataclasses.replace(train, declared_users=declared_users)
        guard = DataGuard(train, valid)
        before = copy.deepcopy(self.settings())
        self._forget()
        self._check_data(guard.public)
        claims = self._claims(guard.public)
        plan = foretelling(self, guard.public, claims) if claims else None
        noise = Noise.secure() if secure else Noise.research(seed, self.word)
        place = None if checkpoint is None else Path(checkpoint)
        seen, way = (guard.public, guard) if claims else (train, None)
        other = None if valid is None else valid.fingerprint
        if claims and valid is not None:  # early stopping asks the guard for it
            valid = strip(valid, keep=())
        grade = noise.grade if claims else ""
        given = self.settings() | {"users": train.declared_users}
        salt = folder_salt(place)
        key = fit_key(self.word, given, seed, train.fingerprint, other, grade, salt)
        job = Job(seen, valid, seed, device, place, progress, [], noise, way, key, salt=salt)
        job.check_folder()
        if job.ended:
            noise.seal()
        held = []
        if ledger is not None and claims:
            name = population or train.name
            paid = (*claims, *self._unclaimed())
            about = (ledger, train, name, self.word, paid, noise, job, self.in_floats)
            held = reserve(*about, new_population=new_population)
        self._users, self._items, self._frame_kind = train.users, train.items, train.frame_kind
        if not claims:  # a private system has its histories when its statement is composed, not before
            self._history = train.matrix()
        began = time.perf_counter()
        try:
            self._fit(job)
            changed = [name for name, value in self.settings().items() if not _same(value, before[name])]
            check(not changed, "settings", "left as they are by a fit", changed, "Keep results elsewhere.")
            chosen = tuned or any("valid" in entry for entry in job.log)  # of settings, or of epochs
            self._state(job, claims, plan, chosen)
        except BaseException:
            self._forget()
            raise
        self._history = train.matrix()
        job.end()
        for reservation in held:
            reservation.release()
        self.facts |= {
            "data": train.name,
            "data_fingerprint": train.fingerprint,
            "interactions": len(train),
            "seed": seed,
            "seconds": round(time.perf_counter() - began, 3),
        }
        if job.log:
            self.facts["log"] = job.log
        return self

    def _forget(self) -> None:
        """Only the settings stay: nothing of an earlier fit is within reach of the next."""
        fields = {field.name: field for field in dataclasses.fields(self)}
        for name in [name for name in vars(self) if name not in fields]:
            delattr(self, name)
        for name, field in fields.items():
            if not field.init:
                make = field.default_factory
                setattr(self, name, field.default if make is dataclasses.MISSING else make())

    # -- what a fitted model knows ------------------------------------------------------------------

    @property
    def users(self) -> Ids:
        """The users it was fitted on."""
        return self._fitted(self._users)

    @property
    def items(self) -> Ids:
        """The items it can recommend."""
        return self._fitted(self._items)

    @property
    def history(self) -> sp.csr_matrix:
        """What each user has interacted with in training, users x items."""
        _ = self.users
        if self._history is None:
            raise NotFitted(
                "this is the shareable part of a model: it has no histories and serves only users given with "
                "history=. Load the owner's whole model to serve known users."
            )
        return self._history

    def _fitted(self, ids: Ids | None) -> Ids:
        if ids is None:
            raise NotFitted(f"{self.word} is not fitted. Call fit(train) first, or veilrec.load_model(path).")
        return ids

    @property
    def guarantee(self) -> Guarantee:
        """The privacy statement."""
        _ = self.items
        return self._statement or Guarantee.none(self.word, reads=self.reads)

    def _state(self, job: Job, claims: tuple[Claim, ...], plan: Plan | None, tuned: bool) -> None:
        """Compose the statement, if every look at the data and every draw is answered for."""
        if plan is None:
            drawn = [event.label or event.kind for event in job.noise.events]
            check(not drawn, "noise", "drawn only by systems that state claims", drawn)
            return
        assert job.guard is not None
        open_looks = job.guard.unanswered(job.noise.events, self.uncovered)
        remedy = "A look needs a release with its label, two looks two, or a purpose named in `uncovered`."
        check(not open_looks, "looks at the data", "covered by an event or named as not", open_looks, remedy)
        foretold, claims = claims, (*claims, *self._claims_after(job.noise))
        Guarantee.of(self.word, claims, job.noise)  # refuses claims that are not those of the draws
        looked = {purpose for _, purpose in job.guard.looks}
        self._plan = dataclasses.replace(
            plan,
            noise=job.noise.grade,
            in_floats=job.noise.in_floats,
            looked=tuple(purpose for purpose in self.uncovered if purpose in looked),
            listed=tuple(job.guard.read_off(self.facts.get("profile", {}).get("attributes", ()))),
            tuned=tuned,
            beyond=beyond(job.noise.events, foretold),
        )
        self._statement = compose(self, self._plan, claims)

    def scores(self, users: Iterable[Any] | None = None, items: Iterable[Any] | None = None) -> Array:
        """Scores of users (rows) for items (columns), in the order given; None means all.

        The scores of one model can be compared within a row, not across models.
        """
        rows = self.score_codes(self.user_codes(users))
        return rows if items is None else rows[:, self.item_codes(items)]

    def score_codes(self, users: Array) -> Array:
        """Scores [len(users), n_items] of users given as codes; float32."""
        _ = self.history
        return np.ascontiguousarray(self._score(np.asarray(users, dtype=np.int64)), dtype=np.float32)

    def recommend(
        self,
        users: Iterable[Any] | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: Iterable[Any] | None = None,
        history: Mapping[Any, Iterable[Any]] | Dataset | None = None,
        reports: Array | None = None,
    ) -> Any:
        """The best ``k`` items of each user: a frame of user, item, rank (from 1) and score.

        ``users`` are the caller's own ids; None means all. ``candidates`` restricts the items. ``history``
        maps new users to the items they have interacted with, or is a data set of them; such users are served
        by fold-in where the model can, with their ``reports`` (:meth:`report`) where it takes any. The frame
        is of the kind the data came in (pandas, Polars or Arrow).
        """
        check_count("k", k)
        allowed = None
        if candidates is not None:
            allowed = np.unique(self.item_codes(candidates))
        if history is not None:
            check(users is None, "users", "None where history is given", users, "Put all users in history.")
            if isinstance(history, Dataset):
                history = like(history, self.items)
                names, seen = history.users.take(np.arange(history.n_users)).to_list(), history.matrix()
            else:
                names, seen = list(history), self.history_matrix(history)
            if reports is not None:
                check(len(reports) == len(names), "reports", f"{len(names)} rows, one each", len(reports))
            labels, codes = pl.Series("user", names, strict=False), np.arange(len(names))
        else:
            check(reports is None, "reports", "left out for known users", "some")
            codes, seen = self.user_codes(users), self.history
            labels = self.users.take(codes).alias("user")

        def score(rows: Array) -> Array:
            if history is None:
                return self.score_codes(rows)
            if reports is None:
                return np.ascontiguousarray(self._score_histories(seen[rows]), dtype=np.float32)
            return np.ascontiguousarray(self._score_newcomers(seen[rows], reports[rows]), dtype=np.float32)

        ranked, values = rank_all(
            score, codes, k, n_items=len(self.items), seen=seen if exclude_seen else None, candidates=allowed
        )
        return to_kind(list_frame(labels, "item", self.items, ranked, values), self._frame_kind)

    def report(
        self,
        people: Dataset,
        *,
        secure: bool = True,
        seed: int | None = None,
        ledger: Ledger | None = None,
        population: str | None = None,
        new_population: bool = False,
    ) -> Array:
        """What the model may know of new people beside their histories, a row each, for :meth:`recommend`.

        A private system draws its noise here, on the device of these people: a report is a release that
        costs them what the statement says, and a second draw costs it again. Draw once and keep it. With a
        ``ledger`` what was drawn is booked for ``population`` (by default the name of the data) before it is
        returned; if the budget does not allow it, it is thrown away. ``new_population`` as in :meth:`fit`.
        Noise comes from the operating system unless ``secure=False``.

        >>> import veilrec as vr
        >>> model = vr.GCN(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
        >>> model.report(vr.synthetic(5, 40, 60, seed=3)).shape
        (5, 48)
        """
        noise = Noise.choose(secure, seed, self.word, "report")
        found = self._report_of(like(people, self.items, self.facts.get("profile")), noise)
        if ledger is not None:
            asked = (self.facts.get("profile") or {}).get("attributes", ())
            raw = self.is_private() and not noise.events
            if raw and set(asked) & set(people.attributes):
                words = f"{self.word} reports attributes as they are"
                noise.record(UnboundedEvent(reason=words, label="reports", neighbours="replace"))
            name = population or people.name
            book_reports(ledger, people, name, self.word, noise, new_population)
        return found

    def view(self, adversary: str = "X") -> dict[str, Any]:
        """What an adversary sees of the fitted model: the hand-over to an attack.

        ``shared`` are the arrays that may be published, and ``probe`` what can be computed from them: scores
        for any histories (users x items), where the model can fold in. That is all that "O", an outsider
        with the model, gets. "X" sees people's lists and scores too: ``recommend`` takes ids, ``scores``
        codes, and ``probe`` is answered by the whole model. "S" is the server: ``server`` are the private
        arrays of ``server_sees``; graph systems add the ``network`` that it runs. ``reports`` are released
        arrays with one row per user, in the order of ``users`` (perturbed features, say), of systems that
        have some. Histories are the attacker's own knowledge and never come from here.

        >>> import veilrec as vr
        >>> model = vr.Popularity().fit(Dataset.from_arrays(["ann", "bob"], ["tea", "mate"]))
        >>> sorted(model.view("O")), sorted(model.view("X"))
        (['probe', 'reports', 'shared'], ['probe', 'recommend', 'reports', 'scores', 'shared'])
        >>> sorted(model.view("S"))
        ['probe', 'reports', 'server', 'shared']
        """
        check_choice("adversary", adversary, ("O", "X", "S"))
        _ = self.items
        told = {name: array for name, array in self.private.items() if name in self.reports}
        seen: dict[str, Any] = {"shared": dict(self.shared), "reports": told}
        if adversary == "X":
            served = {"scores": self.score_codes, "probe": self._score_histories}
            return seen | {"recommend": self.recommend} | served
        if adversary == "S":
            names = self.private if self.server_sees is None else self.server_sees
            seen["server"] = {name: self.private[name] for name in names if name in self.private}
        published = copy.copy(self)  # what its holder can run: no histories, no other private arrays
        published.private, published._history = told | seen.get("server", {}), None
        return seen | {"probe": published._score_histories}

    def similar_items(self, items: Iterable[Any], k: int = 10) -> Any:
        """The ``k`` items most like each of ``items``: a frame of item, similar, rank and score."""
        check_count("k", k)
        codes = self.item_codes(items)
        own = rows_of(list(codes[:, None]), len(self.items))

        def score(rows: Array) -> Array:
            return np.ascontiguousarray(self._item_similarity(codes[rows]), dtype=np.float32)

        ranked, values = rank_all(score, np.arange(len(codes)), k, n_items=len(self.items), seen=own)
        asked = self.items.take(codes).alias("item")
        return to_kind(list_frame(asked, "similar", self.items, ranked, values), self._frame_kind)

    # -- from the caller's ids to codes --------------------------------------------------------------

    def user_codes(self, users: Iterable[Any] | None) -> Array:
        """Codes of users; an unknown one is an error that names it."""
        return codes_of("user", self.users, users, self.word, "Give history= to serve a new user.")

    def item_codes(self, items: Iterable[Any] | None) -> Array:
        """Codes of items; an unknown one is an error that names it."""
        return codes_of(
            "item", self.items, items, self.word, "Only items of the training data can be scored."
        )

    def history_matrix(self, history: Mapping[Any, Iterable[Any]]) -> sp.csr_matrix:
        """New users' interactions as a matrix, one row per user in the order given."""
        return rows_of([self.item_codes(list(seen)) for seen in history.values()], len(self.items))

    # -- files --------------------------------------------------------------------------------------

    def save(
        self, path: str | Path, *, part: str = "whole", sign: SigningKey | str | Path | None = None
    ) -> Path:
        """Write the model to a folder, or to one file if the name ends in ``.veil``.

        ``part="shareable"`` leaves out histories and user vectors: that is what to publish. ``sign`` is a
        key, or its file (``veilrec keys new``): whoever has its public half can tell that nothing was
        changed since.
        """
        from veilrec.training.files import save_model

        return save_model(self, path, part=part, sign=sign)


def _same(value: Any, before: Any) -> bool:
    """Whether a setting is what it was; one that cannot be compared is not."""
    try:
        return bool(value == before)
    except ValueError:  # arrays
        return False
