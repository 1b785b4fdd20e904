"""What was released once stays released: a fit that goes on reads it back instead of drawing again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError, atomic_path
from veilrec.privacy import Event
from veilrec.training.job import Job


def release_once(job: Job, label: str, draw: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """``draw()``, or what it gave before the fit was stopped; its events belong to the statement either way.

    The values are kept in the checkpoint folder before anybody uses them, so a second fit from there cannot
    show a second draw of the same data.

    >>> import veilrec as vr
    >>> from veilrec.privacy.mechanisms import BitResponse
    >>> job = Job(vr.synthetic(users=60, items=40, interactions=900), None, 0, "cpu", None, False)
    >>> release_once(job, "bits", lambda: BitResponse(1.0).perturb([1, 0], job.noise, "bits")).shape
    (2,)
    """
    if job.checkpoint is None:
        return draw()
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save_file

    file = job.checkpoint / f"released-{label.replace(' ', '-')}.safetensors"
    if file.exists():
        try:
            with safe_open(file, framework="numpy") as saved:
                about = json.loads((saved.metadata() or {})["about"])
                values = saved.get_tensor("values")
        except (SafetensorError, KeyError, ValueError) as error:
            raise DataError(
                f"the kept release cannot be read ({error}). Start the fit anew.", file=file
            ) from error
        if about["data"] != job.fingerprint:
            raise DataError("the kept release is of other data. Give another checkpoint folder.", file=file)
        for event in about["events"]:
            job.noise.record(Event.from_dict(event), in_floats=about["in_floats"])
        job.noise.slices.extend(Event.from_dict(part) for part in about["slices"])
        return np.asarray(values)
    before, parts = len(job.noise.events), len(job.noise.slices)
    values = np.ascontiguousarray(draw())
    about = {
        "data": job.fingerprint,
        "in_floats": job.noise.in_floats,
        "events": [event.to_dict() for event in job.noise.events[before:]],
        "slices": [event.to_dict() for event in job.noise.slices[parts:]],
    }
    job.checkpoint.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as temporary:
        save_file({"values": values}, temporary, metadata={"about": json.dumps(about)})
    return values
