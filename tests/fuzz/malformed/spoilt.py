"""Spoiling arguments: nothing to three of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Spoil = Callable[[np.random.Generator, Tensor], Tensor]
SIZES = (-1, 0, 1, 8, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**70, 1.5, None)
WHOLE = (-1, 0, 1, 8, 9, 100, 2**16, 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63), 2**63 - 1)
REAL = (np.nan, np.inf, -np.inf, 0.0, 5e-324, 1e-40, 1e38, 1e300, -1e300)
DTYPES = (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool)


def spoil(generator: np.random.Generator, arguments: dict[str, Any]) -> None:
    """Change them in place; once in ten not at all."""
    for _ in range(int(generator.choice(4, p=(0.1, 0.6, 0.2, 0.1)))):
        names = sorted(arguments)
        name = names[generator.integers(len(names))]
        given = arguments[name]
        if isinstance(given, Tensor):
            kind = KINDS[generator.integers(len(KINDS))] if generator.random() < 0.6 else _number
            try:
                changed = kind(generator, given.detach()) if _there(given) else given
                arguments[name] = changed.requires_grad_() if given.requires_grad and changed.is_floating_point() else changed
            except (RuntimeError, TypeError, IndexError):
                continue  # torch makes no such tensor
        elif given is not None:
            arguments[name] = SIZES[generator.integers(len(SIZES))]
    if generator.random() < 0.05:
        _alias(generator, arguments)


def _there(tensor: Tensor) -> bool:
    """Whether it can be spoilt once more: torch itself reads past a storage that was cut, and fills what was expanded without end."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.numel() > 10**6:
        return False
    return tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size() or not tensor.is_contiguous()


def _number(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    if not tensor.numel():
        return tensor
    changed = tensor.clone()
    number: float = REAL[generator.integers(len(REAL))]
    if not tensor.is_floating_point():
        number = WHOLE[generator.integers(len(WHOLE))]
        if tensor.dtype != torch.bool:
            limits = torch.iinfo(tensor.dtype)
            number = min(max(number, limits.min), limits.max)
    changed.view(-1)[int(generator.integers(changed.numel()))] = number
    return changed


def _dtype(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    return tensor.to(DTYPES[generator.integers(len(DTYPES))])


def _cut(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    return tensor[: int(generator.integers(len(tensor) + 1))].clone() if tensor.dim() else tensor


def _longer(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor]) if tensor.dim() else tensor


def _shape(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    kinds: tuple[Callable[[], Tensor], ...] = (
        lambda: tensor[None],
        lambda: tensor[..., None],
        lambda: tensor.reshape(-1),
        lambda: tensor.sum(),
        lambda: tensor[:0],
        lambda: tensor[..., :0],
        lambda: tensor.new_empty(0, 2**40),
        lambda: tensor.new_empty(2**40, 0),
        lambda: tensor.new_zeros(1).expand(2**40),
        lambda: tensor.new_zeros(1, 1).expand(2**31, 2**31),
    )
    return kinds[generator.integers(len(kinds))]()


def _strides(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    kinds: tuple[Callable[[], Tensor], ...] = (
        lambda: torch.stack([tensor, tensor], -1)[..., 0],
        lambda: tensor.mT.contiguous().mT if tensor.dim() == 2 else tensor.flip(0)[::2],
        lambda: tensor[:1].expand(tensor.shape),
        lambda: torch.cat([tensor, tensor])[len(tensor) :],
    )
    return kinds[generator.integers(len(kinds))]() if tensor.dim() and len(tensor) else tensor


def _kind(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    """Of another device, layout or sign, or made where autograd does not look."""
    choice = generator.integers(6)
    if choice == 0:
        return tensor.to("meta")
    if choice == 1:
        return tensor.to_sparse()
    if choice == 2:
        return tensor.to_sparse_csr() if tensor.dim() == 2 else tensor
    if choice == 3:
        return torch._neg_view(tensor) if tensor.dtype != torch.bool else tensor
    if choice == 4:
        return tensor.clone().requires_grad_(tensor.is_floating_point())
    with torch.inference_mode():
        return tensor.clone()


def _freed(generator: np.random.Generator, tensor: Tensor) -> Tensor:
    made = tensor.clone()
    made.untyped_storage().resize_(int(generator.choice([0, made.untyped_storage().nbytes() // 2])))
    return made


def _alias(generator: np.random.Generator, arguments: dict[str, Any]) -> None:
    """Two tensors share their memory, as far as their sizes let them."""
    names = [
        n
        for n, t in sorted(arguments.items())
        if isinstance(t, Tensor) and t.layout == torch.strided and t.is_contiguous() and not t.is_meta
    ]
    if len(names) < 2:
        return
    one, other = (names[int(k)] for k in generator.choice(len(names), 2, replace=False))
    a, b = (arguments[name].detach() for name in (one, other))
    storage = max((a, b), key=lambda t: t.untyped_storage().nbytes()).untyped_storage()
    for name, t in ((one, a), (other, b)):
        if t.numel() * t.element_size() <= storage.nbytes():
            arguments[name] = torch.empty(0, dtype=t.dtype).set_(storage, 0, t.shape, t.stride())


KINDS: tuple[Spoil, ...] = (_number, _dtype, _cut, _longer, _shape, _strides, _kind, _freed)
