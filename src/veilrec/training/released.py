"""What was released once stays released: a fit that goes on reads it back instead of drawing again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.privacy import Event
from veilrec.training.job import Job


def kept_release(job: Job, label: str) -> NDArray[Any] | None:
    """What :func:`release_once` has kept under a label in the checkpoint folder, if anything.

    >>> import veilrec as vr
    >>> kept_release(Job(vr.synthetic(60, 40, 900), None, 0, "cpu", None, False), "round 1")
    """
    if job.checkpoint is None or not job.file(_name(label)).exists():
        return None
    return np.asarray(job.read_kept(_name(label))[1]["values"])


def release_once(job: Job, label: str, draw: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """``draw()``, or what it gave before the fit was stopped; its events belong to the statement either way.

    The values are kept in the checkpoint folder before anybody uses them, so a second fit from there cannot
    show a second draw of the same data. ``draw`` must take its noise from a child of the job's, lest a draw
    that is read back shift those that follow.

    >>> import veilrec as vr
    >>> from veilrec.privacy.mechanisms import BitResponse
    >>> job = Job(vr.synthetic(users=60, items=40, interactions=900), None, 0, "cpu", None, False)
    >>> noise = job.noise.child("bits")
    >>> release_once(job, "bits", lambda: BitResponse(1.0).perturb([1, 0], noise, "bits")).shape
    (2,)
    """
    if job.checkpoint is None:
        return draw()
    name = _name(label)
    if job.file(name).exists():
        notes, arrays = job.read_kept(name)
        about = json.loads(notes["about"])
        for event in about["events"]:
            job.noise.record(Event.from_dict(event), in_floats=about["in_floats"])
        job.noise.slices.extend(Event.from_dict(part) for part in about["slices"])
        return np.asarray(arrays["values"])
    before, parts = len(job.noise.events), len(job.noise.slices)
    values = np.ascontiguousarray(draw())
    about = {
        "in_floats": job.noise.in_floats,
        "events": [event.to_dict() for event in job.noise.events[before:]],
        "slices": [event.to_dict() for event in job.noise.slices[parts:]],
    }
    job.keep(name, {"values": values}, {"about": json.dumps(about)})
    return values


def _name(label: str) -> str:
    return f"released {label}"
