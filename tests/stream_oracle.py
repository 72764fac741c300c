"""An oracle: training on event streams in float64, one process, event by event, from the papers' equations.

It shares nothing with the trainer but parameters: no batches of rows, no padding, no tables, no index of events; a node's neighbours are
found by going back through the list of all events.
"""

from collections import defaultdict

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, elu, leaky_relu


def perceptron(p, inner, outer, x):
    """Two layers with a relu between them."""
    return p[outer + ".weight"] @ torch.relu(p[inner + ".weight"] @ x + p[inner + ".bias"]) + p[outer + ".bias"]


class StreamOracle:
    """A copy of a StreamModel's parameters, trained on the events src, dst int [M], t [M]; edge [M, De] and features [N, F], or None.

    fanouts: most recent neighbours of a root, then of these. optimiser: makes one of a list of parameters. duration: of a window (DySAT).
    `memory`, `updated` and `boxes` are what the tables of node state hold: vectors, times, and lists of mails, the oldest first.
    """

    def __init__(self, model, src, dst, t, nodes, optimiser, fanouts, edge=None, features=None, duration=0.0):
        self.p = {name: value.detach().clone().double().requires_grad_() for name, value in model.named_parameters()}
        self.constants = {name: value.clone().double() for name, value in model.named_buffers()}
        self.shape, self.name, self.heads = model.shape, model.shape.name, model.shape.heads
        self.src, self.dst, self.t = src.tolist(), dst.tolist(), [float(x) for x in t]
        self.edge = None if edge is None or not self.shape.edge else torch.from_numpy(edge).double()
        self.features = None if features is None else torch.from_numpy(features).double()
        self.nodes, self.fanouts, self.duration = nodes, fanouts, duration
        self.optimiser = optimiser(list(self.p.values()))
        self.reset()

    def reset(self):
        """Node state as before the first event."""
        self.memory = {v: torch.zeros(self.shape.memory).double() for v in range(self.nodes)}
        self.updated = dict.fromkeys(range(self.nodes), self.t[0])
        self.boxes = defaultdict(list)  # of (vector, time, whether the node was the source)

    # The stream

    def neighbours(self, node, before, since, fanout):
        """(node, event) of the latest events, at most `fanout`, in their order."""
        visited = []
        for e in range(before - 1, since - 1, -1):
            if len(visited) < fanout and node in (self.src[e], self.dst[e]):
                visited.append((self.dst[e] if self.src[e] == node else self.src[e], e))
        return visited[::-1]

    def windows(self, time, first):
        """(since, before) of a root's windows, the oldest first: in window k events lie in [time - (k + 1) d, time - k d)."""
        if not self.duration:
            return [(0, first)]
        starts = [sum(x < time - k * self.duration for x in self.t) for k in range(self.shape.windows + 1)]
        spans = [(starts[k + 1], first if k == 0 else starts[k]) for k in range(self.shape.windows)]
        return [(min(since, first), min(before, first)) for since, before in spans[::-1]]

    # Memory

    def current(self, node):
        """A node's memory with its mails in it."""
        mails, s = self.boxes[node], self.memory[node]
        if not self.shape.memory or not mails:
            return s
        return {"tgn": self.gru, "jodie": self.rnn, "apan": self.mailbox}[self.name](s, mails, self.updated[node])

    def heard(self, node):
        """The time that `current` has."""
        return self.boxes[node][-1][1] if self.boxes[node] else self.updated[node]

    def gru(self, s, mails, updated):
        (raw, time, _), p = mails[-1], self.p
        m = torch.cat([raw, self.phi(time - updated)])
        x = (p["cell.weight_ih"] @ m + p["cell.bias_ih"]).split(len(s))
        h = (p["cell.weight_hh"] @ s + p["cell.bias_hh"]).split(len(s))
        r, z = torch.sigmoid(x[0] + h[0]), torch.sigmoid(x[1] + h[1])
        return (1 - z) * torch.tanh(x[2] + r * h[2]) + z * s

    def rnn(self, s, mails, updated):
        (raw, time, sent), p = mails[-1], self.p
        cell = slice(0, len(s)) if sent else slice(len(s), 2 * len(s))
        from_mail = p["given.weight"][cell] @ raw + p["given.bias"][cell]
        return torch.tanh(from_mail + p["kept.weight"][cell] @ s + p["elapsed"][cell] * self.scaled(time - updated))

    def mailbox(self, s, mails, updated):
        p, count = self.p, self.shape.mails
        rows = [raw + p["position"][count - len(mails) + k] for k, (raw, _, _) in enumerate(mails)]
        attended = self.attention(p["query.weight"] @ s, [(p["key.weight"] @ x, p["value.weight"] @ x) for x in rows])
        x = attended + s
        x = (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5) * p["norm.weight"] + p["norm.bias"]
        return perceptron(p, "inner", "outer", x)

    def scaled(self, elapsed):
        mean, deviation = self.constants["standard"]
        return (elapsed - mean) / deviation

    # Embeddings

    def phi(self, elapsed):
        elapsed = self.decibels(elapsed) if self.shape.clock == "log" else elapsed / self.constants.get("clock.unit", 1.0)
        return torch.cos(self.p["clock.frequency"] * elapsed + self.p["clock.phase"])

    def decibels(self, elapsed):
        return 10 * np.log10(1 + elapsed)

    def attention(self, query, slots):
        """Multi-head; slots are (key, value); nothing to attend to gives zeros."""
        parts = []
        for head in range(self.heads):
            part = slice(head * len(query) // self.heads, (head + 1) * len(query) // self.heads)
            if not slots:
                parts.append(torch.zeros_like(query[part]))
                continue
            score = torch.stack([query[part] @ key[part] for key, _ in slots]) / np.sqrt(len(query[part]))
            parts.append(sum(a * value[part] for a, (_, value) in zip(torch.softmax(score, 0), slots, strict=True)))
        return torch.cat(parts)

    def inputs(self, node):
        if not self.shape.memory:
            return self.features[node]
        h = self.fresh[node]
        if self.features is None:
            return h
        return h + self.p["features.weight"] @ self.features[node] + self.p["features.bias"]

    def row(self, node, time, before, since, depth, hop=0):
        """Of a node so many hops from a root, after `depth` layers; its neighbours are of events since … before - 1."""
        if depth == 0:
            return self.inputs(node)
        own = self.row(node, time, before, since, depth - 1, hop)
        neighbours = self.neighbours(node, before, since, self.fanouts[hop])
        near = [(self.row(other, self.t[e], e, since, depth - 1, hop + 1), e) for other, e in neighbours]
        if self.name == "graphmixer":
            return self.mixed(own, near, time, self.fanouts[hop])
        return self.structural(own, near, depth - 1) if self.name == "dysat" else self.temporal(own, near, time, depth - 1)

    def mixed(self, own, near, time, slots):
        """GraphMixer: events through an MLP-Mixer, places and channels one by one; and the mean of what neighbours are."""
        root = np.sqrt(self.shape.time)
        tokens = [torch.zeros(self.shape.hidden).double() for _ in range(slots)]
        for place, (_, e) in enumerate(near):
            elapsed = time - self.t[e]
            beside = [] if self.edge is None else [self.edge[e]]
            if self.shape.clock in ("gaps", "both"):
                beside.append(torch.tensor([self.decibels(elapsed) / 10]).double())
            elapsed = self.decibels(elapsed) if self.shape.clock == "log" else elapsed / self.constants.get("clock.unit", 1.0)
            phi = torch.tensor([np.cos(np.float32(root ** (-i / root)) * float(elapsed)) for i in range(self.shape.time)]).double()
            tokens[len(near) - 1 - place] = self.linear("token", torch.cat([*beside, phi]))
        normed = [self.norm("mixer.before", x) for x in tokens]
        columns = [self.gelu("mixer.slots", torch.stack([x[c] for x in normed])) for c in range(self.shape.hidden)]
        tokens = [x + torch.stack([column[place] for column in columns]) for place, x in enumerate(tokens)]
        tokens = [x + self.gelu("mixer.channels", self.norm("mixer.between", x)) for x in tokens]
        mean = sum(x for x, _ in near) / len(near) if near else torch.zeros_like(own)
        return self.linear("output", torch.cat([sum(tokens) / slots, own + mean]))

    def linear(self, of, x):
        return self.p[of + ".weight"] @ x + self.p[of + ".bias"]

    def norm(self, of, x):
        return (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5) * self.p[of + ".weight"] + self.p[of + ".bias"]

    def gelu(self, of, x):
        """Two layers with a GELU between them."""
        x = self.linear(of + ".inner", x)
        return self.linear(of + ".outer", x * (1 + torch.erf(x / np.sqrt(2))) / 2)

    def sequence(self, node, time, first):
        """DyGFormer: (node, its features, its event's, the time encoded), of a root, then of its latest events, the oldest first."""
        beside = self.shape.clock in ("gaps", "both")
        none = torch.zeros(beside + (0 if self.edge is None else self.edge.shape[1])).double()
        places = [(node, self.features[node], none, self.phi(0.0))]
        for other, e in self.neighbours(node, first, 0, self.fanouts[0]):
            event = [] if self.edge is None else [self.edge[e]]
            event += [torch.tensor([self.decibels(time - self.t[e]) / 10]).double()] * beside
            places.append((other, self.features[other], torch.cat([*event, none[:0]]), self.phi(time - self.t[e])))
        return places

    def paired(self, ends):
        """DyGFormer: embeddings of both ends of a pair, from their sequences."""
        patch, tokens = self.shape.patch, []
        patches = -(-(self.fanouts[0] + 1) // patch)
        empty = tuple(torch.zeros_like(part) for part in ends[0][0][1:])
        for own, other in (ends, ends[::-1]):
            whole = [*own, *[(None, *empty)] * (patches * patch - len(own))]
            common = []
            for name, *_ in whole:
                counts = [sum(name is not None and name == place[0] for place in each) for each in (own, other)]
                encoded = [torch.relu(self.linear("counts.inner", torch.tensor([float(count)]).double())) for count in counts]
                common.append(sum(self.linear("counts.outer", x) for x in encoded))
            for begin in range(0, len(whole), patch):
                within = range(begin, begin + patch)
                names = {"nodes": 1, "times": 3, "events": 2} if len(empty[1]) else {"nodes": 1, "times": 3}
                read = [self.linear(of, torch.cat([whole[place][part] for place in within])) for of, part in names.items()]
                tokens.append(torch.cat([*read, self.linear("counts.patches", torch.cat([common[place] for place in within]))]))
        for block in ("blocks.0.", "blocks.1."):
            rows = [self.linear(block + "query_key_value", self.norm(block + "before", x)).chunk(3) for x in tokens]
            slots = [(key, value) for _, key, value in rows]
            attended = [self.linear(block + "attended", self.attention(query, slots)) for query, _, _ in rows]
            tokens = [x + more for x, more in zip(tokens, attended, strict=True)]
            tokens = [x + self.gelu(block + "perceptron", self.norm(block + "between", x)) for x in tokens]
        return [self.linear("output", sum(part) / patches) for part in (tokens[:patches], tokens[patches:])]

    def temporal(self, own, near, time, layer):
        p, at = self.p, f"layers.{layer}."
        query = p[at + "query.weight"] @ torch.cat([own, self.phi(0.0)])
        slots = []
        for x, e in near:
            beside = [] if self.edge is None else [self.edge[e]]
            if self.shape.clock in ("gaps", "both"):
                beside.append(torch.tensor([self.decibels(time - self.t[e]) / 10]).double())
            x = torch.cat([x, *beside, self.phi(time - self.t[e])])
            slots.append((p[at + "key.weight"] @ x, p[at + "value.weight"] @ x))
        return perceptron(p, at + "merge", at + "out", torch.cat([self.attention(query, slots), own]))

    def structural(self, own, near, layer):
        p, at, parts = self.p, f"layers.{layer}.", []
        rows = [p[at + "dense.weight"] @ x for x in (own, *(x for x, _ in near))]
        for head in range(self.heads):
            part = slice(head * len(rows[0]) // self.heads, (head + 1) * len(rows[0]) // self.heads)
            left, right = p[at + "left"][part], p[at + "right"][part]
            score = torch.stack([leaky_relu(left @ z[part] + right @ rows[0][part], 0.2) for z in rows])
            parts.append(sum(a * z[part] for a, z in zip(torch.softmax(score, 0), rows, strict=True)))
        return elu(torch.cat(parts))

    def embedding(self, node, time, first):
        """Of a root that sees the events before `first`."""
        p = self.p
        if self.name == "dygformer":
            return self.sequence(node, time, first)
        rows = [self.row(node, time, before, since, self.shape.layers) for since, before in self.windows(time, first)]
        if self.name == "jodie":
            return (1 + p["projection"] * self.scaled(time - self.heard(node))) * rows[0]
        if self.name != "dysat":
            return rows[0]
        xs = [z + position for z, position in zip(rows, p["position"], strict=True)]
        v = self.attention(p["query.weight"] @ xs[-1], [(p["key.weight"] @ x, p["value.weight"] @ x) for x in xs])
        return v + torch.relu(p["forth.weight"] @ v + p["forth.bias"]) + xs[-1]

    def score(self, src, dst):
        p = self.p
        if self.name == "dygformer":
            src, dst = self.paired((src, dst))
        both = p["links.source.weight"] @ src + p["links.destination.weight"] @ dst + p["links.destination.bias"]
        return p["links.score.weight"][0] @ torch.relu(both) + p["links.score.bias"][0]

    # Training

    def logits(self, first, last, others):
        """Of events first … last - 1: rows of the destination's score and those of `others` [last - first, n]. Memory is not written."""
        self.fresh = {v: self.current(v) for v in range(self.nodes)} if self.shape.memory else {}
        scores = []
        for e in range(first, last):
            own, *rest = (self.embedding(int(v), self.t[e], first) for v in (self.src[e], self.dst[e], *others[e - first]))
            scores.append(torch.stack([self.score(own, other) for other in rest]))
        return torch.stack(scores)

    def step(self, first, last, negatives):
        """Train on one batch; negatives int [last - first]. Its loss."""
        logits = self.logits(first, last, np.asarray(negatives)[:, None])
        truth = torch.tensor([1.0, 0.0]).double()
        loss = sum(binary_cross_entropy_with_logits(row, truth, reduction="sum") for row in logits) / (last - first)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.write(first, last)
        return loss.item()

    def train(self, batches, negatives):
        """batches: (first, last) in order; negatives int [M], by event. Losses of all batches."""
        return np.array([self.step(first, last, negatives[first:last]) for first, last in batches])

    def write(self, first, last):
        """What a batch leaves behind, whether it was trained on or scored: memory as it was during the batch, then mails."""
        if not self.shape.memory:
            return
        around = {v: [other for other, _ in self.neighbours(v, first, 0, self.fanouts[0])] for v in range(self.nodes)}
        for v in {*self.src[first:last], *self.dst[first:last]}:
            self.memory[v], self.updated[v] = self.fresh[v].detach(), self.heard(v)
        received = defaultdict(list)
        for e in range(first, last):
            u, v = self.src[e], self.dst[e]
            extra = [] if self.edge is None else [self.edge[e]]
            if self.name == "apan":
                raw = torch.cat([self.memory[u] + self.memory[v], *extra])
                for node in {u, v, *around[u], *around[v]}:
                    received[node].append((raw, self.t[e], False))
                continue
            for own, other, sent in ((v, u, False), (u, v, True)):  # of an event with itself a node is the source
                both = [self.memory[own], self.memory[other]] if self.name == "tgn" else [self.memory[other]]
                received[own].append((torch.cat([*both, *extra]), self.t[e], sent))
        for node, mails in received.items():
            mail = mails[-1]
            if self.name == "apan":
                mail = (sum(raw for raw, _, _ in mails) / len(mails), max(time for _, time, _ in mails), False)
            self.boxes[node] = [*self.boxes[node], mail][-self.shape.mails :]

    def tables(self):
        """memory [N, H], updated [N], mail [N, S, W] (the newest last, zeros where there is none), mailed [N, S] (-inf there), as NumPy."""
        shape = self.shape
        mail, mailed = np.zeros((self.nodes, shape.mails, shape.mail)), np.full((self.nodes, shape.mails), -np.inf)
        for node, box in self.boxes.items():
            for slot, (raw, time, _) in enumerate(box, shape.mails - len(box)):
                mail[node, slot], mailed[node, slot] = raw.numpy(), time
        memory = np.stack([self.memory[v].numpy() for v in range(self.nodes)])
        return memory, np.array([self.updated[v] for v in range(self.nodes)]), mail, mailed
