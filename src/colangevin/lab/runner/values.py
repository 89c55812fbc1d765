"""Values of a record: numbers of six digits, and arrays as text."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

DIGITS = 6


def plain(value: Any) -> Any:
    """Turn a value into what JSON holds: six significant digits, null for NaN and infinity.

    Example:
        >>> plain({"loss": [torch.tensor(1 / 3), float("nan")], "epochs": (1, 2)})
        {'loss': [0.333333, None], 'epochs': [1, 2]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a tensor, or an array or a number of numpy's
        return plain(value.tolist())
    raise TypeError(f"a record holds plain values and tensors, got {type(value).__name__}")


def pack(tensor: Tensor) -> str:
    """Turn a tensor into short text: ``uint8`` as it is, everything else as ``float16``.

    Example:
        >>> unpack(pack(torch.tensor([[0, 255]], dtype=torch.uint8)))
        tensor([[  0, 255]], dtype=torch.uint8)
        >>> pack(torch.zeros(100, 100)).partition(";")[0]
        'float16:100x100'
    """
    kind = torch.uint8 if tensor.dtype == torch.uint8 else torch.float16
    content = tensor.detach().cpu().to(kind).contiguous()
    shape = "x".join(map(str, content.shape))
    data = zlib.compress(content.numpy().tobytes(), 9)
    return f"{str(kind).removeprefix('torch.')}:{shape};{base64.b64encode(data).decode()}"


def unpack(text: str) -> Tensor:
    """Turn text of :func:`pack` into the tensor again.

    Raises:
        ValueError: if the text is none of it.

    Example:
        >>> unpack(pack(torch.tensor([0.5, 2.0])))
        tensor([0.5000, 2.0000], dtype=torch.float16)
    """
    head, _, body = text.partition(";")
    kind, _, shape = head.partition(":")
    try:
        sizes = [int(size) for size in shape.split("x") if size]
        data = bytearray(zlib.decompress(base64.b64decode(body, validate=True)))
        dtype = {"uint8": torch.uint8, "float16": torch.float16}[kind]
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return flat.reshape(sizes)
    except (KeyError, ValueError, RuntimeError, zlib.error) as error:
        raise ValueError(f"not a packed tensor: {error}") from error
