"""Models that are tables of logits: deterministic, milliseconds, and they remember what was fed to them."""

import zlib
from functools import lru_cache

import torch

from engines.core.errors import UserError
from engines.core.kinds import Extended
from engines.core.trace import ModelRecord
from engines.models.tokenizers.tokens import IdTokenizer

ROWS = 4099  # contexts share this many rows of logits


@lru_cache(maxsize=32)
def rows(vocab_size, seed, scale, grid):
    table = torch.randn(ROWS, vocab_size, generator=torch.Generator().manual_seed(seed)) * scale
    return (table / grid).round() * grid if grid else table


class Table:
    """Logits for any context: one of `ROWS` random rows, chosen by a checksum.

    `grid`: logits are multiples of it, so that ties occur; `never`: ids with a hopeless logit.
    """

    def __init__(self, vocab_size, seed, scale=2.0, grid=None, never=()):
        self.rows = rows(vocab_size, seed, scale, grid).clone()
        self.rows[:, list(never)] = -50.0

    def __getitem__(self, contexts):
        return self.rows[[zlib.crc32(repr(context).encode()) % ROWS for context in contexts]]


class Base:
    def __init__(self, kind, vocab_size, eos_ids, max_positions, name, parameters, special):
        self.record = ModelRecord(role="target", name=name, kind=kind, parameters=parameters)
        self.tokenizer = IdTokenizer(vocab_size, special | dict.fromkeys(eos_ids, "<eos>"))
        self.vocab_size, self.max_positions, self.eos_ids = vocab_size, max_positions, frozenset(eos_ids)

    def warm_up(self):
        return 0.0


class TokenCache:
    """Holds the tokens themselves instead of keys and values."""

    def __init__(self, capacity):
        self.capacity, self.tokens = capacity, []

    @property
    def length(self):
        return len(self.tokens)

    def crop(self, length):
        if not 0 <= length <= self.length:
            raise ValueError("crop")
        del self.tokens[length:]

    def keep(self, base, rows):
        assert list(rows) == sorted(set(rows))
        self.tokens = self.tokens[:base] + [self.tokens[base + r] for r in rows]


class TableCausal(Base):
    """`memory`: how many last tokens the distribution depends on (None: all of them). `calls`: (tokens in the cache,
    tokens fed) of every forward."""

    num_layers = 1

    def __init__(
        self, vocab_size=8, seed=0, memory=2, eos_ids=(), max_positions=4096, name="table", parameters=10, **table
    ):
        super().__init__("causal", vocab_size, eos_ids, max_positions, name, parameters, {})
        self.table, self.memory, self.calls = Table(vocab_size, seed, **table), memory, []

    def new_cache(self, capacity):
        return TokenCache(capacity)

    def logits(self, *contexts):
        """[n, V]"""
        return self.table[[tuple(c if self.memory is None else c[-self.memory :]) for c in contexts]]

    def extend(self, tokens, cache, *, parents=None, hidden=(), last_only=False):
        tokens, past = [int(t) for t in tokens], list(cache.tokens)
        self.calls.append((list(past), tokens))
        early = len(parents) - len(tokens) if parents is not None else 0
        past, tree = past[: len(past) - early], past[len(past) - early :] + tokens
        parents = list(range(-1, len(tree) - 1)) if parents is None else list(parents)
        if not tokens or (past and cache.length + len(tokens) > cache.capacity):
            raise ValueError("nothing fed, or more than the cache takes")
        paths = []
        for token, parent in zip(tree, parents, strict=True):
            paths.append([*(paths[parent] if parent >= 0 else []), token])
            if len(past) + len(paths[-1]) > self.max_positions:
                raise UserError("beyond the last position")
        cache.tokens += tokens
        return Extended(self.logits(*(past + path for path in (paths[-1:] if last_only else paths[early:]))))


class TableMasked(Base):
    """The distribution of a position depends on it and on its neighbours within `reach`; the last id is the mask."""

    def __init__(self, vocab_size=12, seed=0, reach=2, eos_ids=(), max_positions=256, **table):
        self.mask_id = vocab_size - 1
        super().__init__("masked", vocab_size, eos_ids, max_positions, "table", 10, {self.mask_id: "<mask>"})
        self.table, self.reach = Table(vocab_size, seed, **table), reach

    def __call__(self, x):
        if x.ndim == 2:
            return torch.stack([self(row) for row in x])
        ids = x.tolist()
        z = self.table[[(i, ids[max(0, i - self.reach) : i + self.reach + 1]) for i in range(len(ids))]]
        z[:, self.mask_id] = -torch.inf
        return z


class Watched(TableMasked):
    """Remembers every board that it was given."""

    def __init__(self, **table):
        super().__init__(**table)
        self.fed = []

    def __call__(self, x):
        if x.ndim == 1:
            self.fed.append(x.tolist())
        return super().__call__(x)


class Remembering(TableMasked):
    """Feeds parts of a board. `fed`: the ranges; with `shift` the first row of a part is worthless, and certain of
    token 0."""

    def __init__(self, shift=False, **table):
        super().__init__(**table)
        self.shift, self.fed = shift, []

    def new_cache(self, capacity):
        return TokenCache(capacity)

    def feed(self, x, cache, start, end):
        if end - start < len(x) > cache.length:
            raise ValueError("the whole board first")
        cache.crop(min(cache.length, len(x)))
        self.fed.append((start, end))
        cache.tokens[start:end] = x[start:end].tolist()
        z = self(torch.tensor(cache.tokens))[start:end]
        if self.shift and start:
            z[0] = torch.where(torch.arange(self.vocab_size) == 0, 99.0, -torch.inf)
        return z


def board(trace):
    """The output, replayed from the commits alone."""
    cells = list(trace.header.prompt_ids)
    if trace.header.canvas is not None:
        cells += [trace.header.mask_id] * (trace.header.canvas - len(cells))
    for step in trace.steps:
        if step.commits:
            step.commits.shift(cells, lambda: None)
        for position, token in zip(step.commits.positions, step.commits.tokens, strict=True) if step.commits else ():
            if token < 0:
                del cells[position:]
            elif position < len(cells):
                cells[position] = token
            else:
                assert position == len(cells)
                cells.append(token)
    return cells[len(trace.header.prompt_ids) :]


def commits(trace):
    """What each step wrote, as {position: token}."""
    return [dict(zip(s.commits.positions, s.commits.tokens, strict=True)) if s.commits else {} for s in trace.steps]


def lane(step, name):
    """A lane of a step as {position: value}, missing places left out."""
    found = next(one for one in step.scores if one.name == name)
    values = found.values.array()
    return {found.start + i: float(v) for i, v in enumerate(values) if v == v}


def chi_square_p(counts, distribution):
    """p-value of observed counts against a distribution. Cells that cannot occur must be empty; rare ones are taken
    together."""
    counts, distribution = (torch.as_tensor(one, dtype=torch.float64) for one in (counts, distribution))
    if counts[distribution <= 0].sum() > 0:
        return 0.0
    expected = distribution / distribution.sum() * counts.sum()
    often = expected >= 5
    counts, expected = (torch.cat([x[often], x[~often].sum()[None]]) for x in (counts, expected))
    if expected[-1] < 5:  # too little even together
        counts, expected = counts[:-1], expected[:-1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(torch.special.gammaincc(torch.tensor((len(expected) - 1) / 2, dtype=torch.float64), statistic / 2))
