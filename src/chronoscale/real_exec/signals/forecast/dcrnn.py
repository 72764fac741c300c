"""Diffusion-convolutional recurrent networks: the encoder-decoder of Li et al. (ICLR 2018) and the single layer that PGT-I trains.

State and inputs are rows [N B, width], node by node, so that one product diffuses the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.errors import UserError
from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.real_exec.signals.forecast.walks import Walks
from chronoscale.strategies.workload import ModelShape


class DiffusionGru(nn.Module):
    """GRU cell of DCRNN, with diffusion convolutions in place of matrix products (Li et al., eq. 3).

    z, r = sigmoid(conv [x, h]);  c = tanh(conv [x, r h]);  h' = z h + (1 - z) c

    Rows are [N B, width], node by node. Weights are [terms, width, gates H], the update, reset and candidate gates beside each other.
    `published`: the identity has two weights, which are added up; so initialised as upstream does (Glorot's bound of a [2, hops + 1, in,
    out] array).
    """

    def __init__(self, width: int, hidden: int, hops: int, published: bool = False) -> None:
        super().__init__()
        self.hidden, self.published = hidden, published
        terms = 2 * (hops + 1) if published else 1 + 2 * hops
        fans = (hops + 3) * (width + hidden) * hidden if published else terms * (width + hidden) + hidden
        bound = (6 / fans) ** 0.5
        self.of_input = nn.Parameter(torch.empty(terms, width, 3 * hidden).uniform_(-bound, bound))
        self.of_state = nn.Parameter(torch.empty(terms, hidden, 2 * hidden).uniform_(-bound, bound))
        self.of_candidate = nn.Parameter(torch.empty(terms, hidden, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(3 * hidden))

    def _terms(self, weight: Tensor) -> Tensor:
        return torch.cat(((weight[0] + weight[1])[None], weight[2:])) if self.published else weight

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights of a DCRNN cell: of the input [terms, width, 3 H], of the state for update and reset gate [terms, H, 2 H] and
        for the candidate [terms, H, H].
        """
        return self._terms(self.of_input), self._terms(self.of_state), self._terms(self.of_candidate)

    def narrow(self, spread: Tensor, weights: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return what a narrow input (fewer channels than hidden units) adds to a DCRNN cell's gates, [N B, 3 H].

        spread: its diffusions, [N B, terms width]. weights: as `weights` returns them.
        """
        return torch.addmm(self.bias, spread, weights[0].flatten(0, 1))

    def wide(self, x: Tensor, weights: tuple[Tensor, Tensor, Tensor], walks: Walks) -> Tensor:
        """Return what an input [N B, width] adds to a DCRNN cell's gates, [N B, 3 H].

        weights: as `weights` returns them. walks: random walks on the sensors' graph, by which x is diffused.
        """
        return walks.convolve(x, weights[0], self.bias)

    def forward(self, base: Tensor, state: Tensor | None, weights: tuple[Tensor, Tensor, Tensor], walks: Walks) -> Tensor:
        """Take one time step of a DCRNN cell: return the next state, [N B, H].

        base: the input's part of the gates, [N B, 3 H]. state: [N B, H], None: zero. weights: as `weights` returns them.
        """
        for_gates, for_candidate = base.split([2 * self.hidden, self.hidden], 1)
        if state is None:
            update, candidate = for_gates[:, : self.hidden].sigmoid(), for_candidate.tanh()
            return cast(Tensor, candidate - update * candidate)
        update, reset = walks.convolve(state, weights[1], for_gates).sigmoid_().chunk(2, 1)
        candidate = walks.convolve(reset * state, weights[2], for_candidate).tanh_()
        return torch.lerp(candidate, state, update)


class Recurrences(nn.Module):
    """Stack of DCRNN cells (DiffusionGru), one a layer; the first reads a narrow input."""

    def __init__(self, shape: ModelShape, inputs: int, published: bool) -> None:
        super().__init__()
        self.hidden = shape.hidden
        widths = [inputs] + [shape.hidden] * (shape.layers - 1)
        self.cells = nn.ModuleList(DiffusionGru(width, shape.hidden, shape.hops, published) for width in widths)

    def weights(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return the weights of each layer's DCRNN cell; called once a forward pass."""
        return [cast(DiffusionGru, cell).weights() for cell in self.cells]

    def forward(
        self, spread: Tensor, states: list[Tensor | None], weights: list[tuple[Tensor, Tensor, Tensor]], walks: Walks
    ) -> list[Tensor | None]:
        """Take one time step through all layers of DCRNN cells: return the layers' next states, [N B, H] each.

        spread: the input's diffusions, [N B, terms width]. states: of the layers, None: zero. weights: as `weights` returns them.
        """
        after: list[Tensor | None] = []
        for layer, (module, state, own) in enumerate(zip(self.cells, states, weights, strict=True)):
            cell = cast(DiffusionGru, module)
            below = after[-1] if layer else None
            after.append(cell(cell.narrow(spread, own) if below is None else cell.wide(below, own, walks), state, own, walks))
        return after


class DiffusionForecaster(Forecaster):
    """Models `dcrnn` and `pgt-dcrnn` of a signal, recurrent networks with diffusion convolution.

    `dcrnn`: an encoder reads the window; a decoder, from its states and a zero symbol, reads its own predictions, or what it is taught
    (scheduled sampling, Li et al. §2.4). `pgt-dcrnn`: no decoder; the state after step t of the last `horizon` steps of the window, read
    out, predicts step t of the horizon.
    """

    def __init__(self, shape: ModelShape, walks: Walks, window: int, horizon: int) -> None:
        super().__init__()
        self.walks, self.horizon = walks, horizon
        self.encoder = Recurrences(shape, shape.inputs, walks.published)
        self.decoder = Recurrences(shape, 1, walks.published) if shape.name == "dcrnn" else None
        self.readout = nn.Linear(shape.hidden, 1)
        if self.decoder is None and horizon > window:
            raise UserError(f"forecaster '{shape.name}' predicts at most window = {window} steps, got horizon {horizon}")

    def forward(self, x: Tensor) -> Tensor:
        return self._in_parts(x, None, ())

    def teach(self, x: Tensor, truth: Tensor, taught: Sequence[bool]) -> Tensor:
        if self.decoder is None:
            return super().teach(x, truth, taught)
        return self._in_parts(x, truth, taught)

    def _in_parts(self, x: Tensor, truth: Tensor | None, taught: Sequence[bool]) -> Tensor:
        """Predict windows some at a time, as many as are best diffused together."""
        parts = -(-len(x) // self.walks.windows_at_once(2 * self.encoder.hidden, x))
        if parts <= 1:
            return self._predict(x, truth, taught)
        truths = [None] * parts if truth is None else truth.tensor_split(parts)
        return torch.cat([self._predict(*part, taught) for part in zip(x.tensor_split(parts), truths, strict=True)])

    def _predict(self, x: Tensor, truth: Tensor | None, taught: Sequence[bool]) -> Tensor:
        batch, _, nodes, _ = x.shape
        spread = self.walks(x.permute(2, 1, 0, 3).contiguous()).transpose(0, 1).contiguous()  # [window, N, B, terms C]
        states: list[Tensor | None] = [None] * len(self.encoder.cells)
        weights, seen = self.encoder.weights(), []
        for step in spread.flatten(1, 2):
            states = self.encoder(step, states, weights, self.walks)
            seen.append(states[-1])
        if self.decoder is None:
            outputs = [self.readout(state) for state in seen[-self.horizon :]]
        else:
            outputs, weights = [], self.decoder.weights()
            symbol = x.new_zeros(nodes, batch, 1)
            for ahead in range(self.horizon):
                states = self.decoder(self.walks(symbol).flatten(0, 1), states, weights, self.walks)
                outputs.append(self.readout(states[-1]))
                symbol = outputs[-1].view(nodes, batch, 1)
                if truth is not None and ahead < len(taught) and taught[ahead]:
                    true = truth[:, ahead].T[..., None].contiguous()
                    symbol = torch.where(true.isnan(), symbol, true)
        return torch.stack(outputs).view(self.horizon, nodes, batch).permute(2, 0, 1)
