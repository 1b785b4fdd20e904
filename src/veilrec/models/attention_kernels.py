"""Compiled attention over neighbourhoods: one pass where torch would make six arrays of edges x width.

``forward``: for each node i with members k, logit = w . relu(left_k + right_i), softmax, sum of messages.
``backward`` recomputes the hidden layer instead of keeping it. Neighbourhoods are symmetric (k is around i
when i is around k), so that the gradient of a source is summed by its own node too: no two threads write to
the same row, and the bits do not depend on their number. Nodes that are not ``wanted`` cost nothing: their
row is zero, and nothing flows back from it.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

_jit: Any = nb.njit(cache=True, nogil=True, fastmath={"contract", "nsz", "arcp", "reassoc"})


@_jit
def forward(first, last, wanted, start, source, left, right, w, message, weight, out):  # type: ignore[no-untyped-def]
    """Nodes ``first`` to ``last`` - 1: attention weights of their edges and the mixed messages."""
    width, depth = len(w), message.shape[1]
    for i in range(first, last):
        for j in range(depth):
            out[i, j] = 0
        if not wanted[i]:
            continue
        top = np.float32(-np.inf)
        for e in range(start[i], start[i + 1]):
            k = source[e]
            logit = np.float32(0)
            for j in range(width):
                hidden = left[k, j] + right[i, j]
                logit += w[j] * max(hidden, np.float32(0))
            weight[e] = logit
            if logit > top:
                top = logit
        total = 0.0
        for e in range(start[i], start[i + 1]):
            weight[e] = math.exp(weight[e] - top)
            total += weight[e]
        for e in range(start[i], start[i + 1]):
            weight[e] /= total
            k, a = source[e], weight[e]
            for j in range(depth):
                out[i, j] += a * message[k, j]


@_jit
def backward_targets(  # type: ignore[no-untyped-def]
    first,
    last,
    wanted,
    start,
    source,
    left,
    right,
    w,
    message,
    weight,
    gradient,
    logit_gradient,
    right_gradient,
    w_rows,
):
    """Gradients of the logits of each edge, of ``right``, and per node of ``w``."""
    width, depth = len(w), message.shape[1]
    for i in range(first, last):
        for j in range(width):
            right_gradient[i, j] = 0
            w_rows[i, j] = 0
        if not wanted[i]:
            continue
        mean = 0.0
        for e in range(start[i], start[i + 1]):
            k = source[e]
            dot = np.float32(0)
            for j in range(depth):
                dot += gradient[i, j] * message[k, j]
            logit_gradient[e] = dot
            mean += weight[e] * dot
        for e in range(start[i], start[i + 1]):
            k = source[e]
            g = np.float32(weight[e] * (logit_gradient[e] - mean))
            logit_gradient[e] = g
            for j in range(width):
                hidden = left[k, j] + right[i, j]
                on = np.float32(1) if hidden > 0 else np.float32(0)
                right_gradient[i, j] += on * g * w[j]
                w_rows[i, j] += on * g * hidden


@_jit
def backward_sources(  # type: ignore[no-untyped-def]
    first,
    last,
    wanted,
    start,
    source,
    reverse,
    left,
    right,
    w,
    weight,
    gradient,
    logit_gradient,
    left_gradient,
    message_gradient,
):
    """Gradients of ``left`` and of the messages, summed over the neighbourhoods that a node is in."""
    width, depth = len(w), gradient.shape[1]
    for k in range(first, last):
        for j in range(width):
            left_gradient[k, j] = 0
        for j in range(depth):
            message_gradient[k, j] = 0
        for e in range(start[k], start[k + 1]):
            i, back = source[e], reverse[e]
            if not wanted[i]:
                continue
            g, a = logit_gradient[back], weight[back]
            for j in range(width):
                on = np.float32(1) if left[k, j] + right[i, j] > 0 else np.float32(0)
                left_gradient[k, j] += on * g * w[j]
            for j in range(depth):
                message_gradient[k, j] += a * gradient[i, j]
