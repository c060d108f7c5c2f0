"""Our word reader behind `WordReaderLM`: from a folder with config.json and weights, with its letters as tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import Extended, KVCache
from engines.core.kinds.base import Ids, Tokenizer
from engines.core.kinds.reader import Places, Seen
from engines.core.trace import ModelRecord, Piece
from engines.models.adapters.base import Warmed
from engines.models.files import stored
from engines.models.files.hub import read_json, shards
from engines.models.networks.word_reader import FEATURES, FIELDS, HEIGHT, WIDTH, Past, WordReader, build
from engines.tasks.blocks import WORDS as PICTURES
from engines.tasks.blocks import own_picture

END, SHORTEST = 0, 2  # the end mark; letters of a word, at least
POSITIONS = 4096  # no position of the board is learnt: this only bounds it


class SignTokenizer:
    """Token 0 is the end mark, token i the i-th sign."""

    between = ""  # two signs in a text

    def __init__(self, signs: Sequence[str]) -> None:
        self.signs = signs

    def decode(self, ids: Sequence[int]) -> str:
        """The signs of ids; the end mark and ids that stand for nothing are left out."""
        return self.between.join(self.signs[i - 1] for i in ids if END < i <= len(self.signs))

    def piece(self, token: int) -> Piece:
        """A sign, or <end>."""
        if END < token <= len(self.signs):
            return Piece(token, self.signs[token - 1])
        return Piece(token, "<end>" if token == END else f"<unused {token}>", "special")

    def vocabulary(self) -> dict[int, str]:
        """What each id stands for."""
        return {i: self.piece(i).text for i in range(len(self.signs) + 1)}


class LetterTokenizer(SignTokenizer):
    """Its signs are letters. A prompt is one word."""

    def __init__(self, letters: str, longest: int) -> None:
        super().__init__(letters)
        self.letters, self.longest = letters, longest

    def encode_prompt(self, text: str) -> list[int]:
        """The letters of one word, however they are typed, or the blocks of a picture of a person's own. Raises
        UserError for what cannot be drawn and read."""
        if (own := own_picture(text)) is not None:
            return PICTURES.read(own)
        word, last = text.strip().lower(), self.letters[-1]
        if bad := next((letter for letter in word if letter not in self.letters), None):
            raise UserError(
                f"this reader does not know {'a blank' if bad.isspace() else repr(bad)}; write one word of {SHORTEST} "
                f"to {self.longest} letters from {self.letters[0]} to {last}, such as address."
            )
        if not SHORTEST <= len(word) <= self.longest:
            raise UserError(
                f"'{word[:20]}' has a length of {len(word)}; write one word of {SHORTEST} to {self.longest} letters "
                f"from {self.letters[0]} to {last}, such as address."
            )
        return self.encode(word)

    def encode(self, text: str) -> list[int]:
        """Ids of letters. Raises UserError for any other sign."""
        if bad := next((letter for letter in text if letter not in self.letters), None):
            raise UserError(f"this reader has no token for '{bad}'; its tokens are the letters {self.letters}.")
        return [1 + self.letters.index(letter) for letter in text]

    def piece(self, token: int) -> Piece:
        """A letter, <end>, or a block of a picture."""
        return Piece(token, "<block>", "special") if token in PICTURES.ids else super().piece(token)


@dataclass
class SeenPicture:
    """Features [b, V, d] of b pictures, and for the decoder that writes, keys and values of them in each layer."""

    features: Tensor
    prompt: int
    image: list[Past] | None = None

    @property
    def length(self) -> int:
        """Features of a picture."""
        return self.features.shape[1]

    @property
    def pictures(self) -> int:
        """How many were seen at once."""
        return len(self.features)


class WrittenCache:
    """Keys and values of the letters written, behind `base` positions of the prompt."""

    def __init__(self, past: list[Past], image: list[Past], base: int) -> None:
        self.past, self.image, self.base = past, image, base

    @property
    def length(self) -> int:
        """Positions of the board that it holds."""
        return self.base + self.past[0][0].shape[2]

    def crop(self, length: int) -> None:
        """Forget everything from position `length` on. Raises ValueError if there is less, or for one of the prompt."""
        if not self.base <= length <= self.length:
            raise ValueError(
                f"the cache holds positions {self.base} to {self.length}; it cannot be cropped to {length}"
            )
        self.keep(length, ())

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` positions and, behind them, base + r for r in `rows` (ascending)."""
        kept = [*range(base - self.base), *(base - self.base + r for r in rows)]
        self.past = [(keys[:, :, kept], values[:, :, kept]) for keys, values in self.past]

    def take(self, rows: Sequence[int] | Tensor) -> None:
        """Let row i of many go on from row rows[i]."""
        at = torch.as_tensor(rows)
        self.past, self.image = (
            [(keys[at], values[at]) for keys, values in pairs] for pairs in (self.past, self.image)
        )


class HFWordReader(Warmed):
    """A `WordReader` with its tokenizer: see `WordReaderLM`."""

    eos_ids, max_positions, encoder_layers = frozenset({END}), POSITIONS, 1
    picture_ids = PICTURES.ids

    def __init__(self, network: WordReader, record: ModelRecord) -> None:
        self.network, self.record = network.eval().requires_grad_(False), record
        self.tokenizer: Tokenizer = LetterTokenizer(network.letters, network.longest)
        self.vocab_size, self.start_id = len(network.letters) + 1, network.writer.begin
        self.places, self.features = network.longest + 1, FEATURES
        self.num_layers = len(network.writer.layers)

    def _first_calls(self) -> None:
        for _ in range(2):
            seen = self.see(torch.zeros(HEIGHT, WIDTH, dtype=torch.uint8), 1)
            self.glance(seen)
            self.extend([self.start_id], self.new_cache(seen))

    @torch.no_grad()
    def see(self, picture: Any, prompt: int) -> SeenPicture:
        """See `WordReaderLM`. Raises ValueError for a picture of another shape or type."""
        pixels = torch.as_tensor(picture)
        if tuple(pixels.shape[-2:]) != (HEIGHT, WIDTH) or pixels.ndim not in (2, 3) or pixels.dtype != torch.uint8:
            raise ValueError(
                f"a picture of {HEIGHT} x {WIDTH} greys is needed, not {tuple(pixels.shape)} of {pixels.dtype}"
            )
        return SeenPicture(self.network.features(pixels.reshape(-1, HEIGHT, WIDTH)), prompt)

    @torch.no_grad()
    def glance(self, seen: Seen) -> Places:
        """See `WordReaderLM`."""
        return self.glances(seen)[0]

    @torch.no_grad()
    def glances(self, seen: Seen) -> list[Places]:
        """See `WordReaderLM`."""
        assert isinstance(seen, SeenPicture)
        glance = self.network.parallel(seen.features, counts=False)
        rows = zip(glance.logits.float(), glance.occupied.float().sigmoid(), glance.attention.float(), strict=True)
        return [Places(*row) for row in rows]

    @torch.no_grad()
    def counts(self, seen: Seen) -> list[int]:
        """See `WordReaderLM`."""
        assert isinstance(seen, SeenPicture)
        logits = self.network.parallel(seen.features).counts
        assert logits is not None
        return logits[0].argmax(-1).tolist()

    def pass_rows(self) -> int:
        """See `WordReaderLM`: both stacks, two layers each, and the joining one."""
        V, P = self.features, self.places
        return 2 * V + 2 * (P + V) + P

    @torch.no_grad()
    def new_cache(self, seen: Seen) -> WrittenCache:
        """See `WordReaderLM`. Keys and values of the picture are computed at the first call for it."""
        assert isinstance(seen, SeenPicture)
        writer = self.network.writer
        seen.image = seen.image or writer.image(seen.features)
        return WrittenCache(writer.nothing(seen.features), seen.image, seen.prompt - 1)

    @torch.no_grad()
    def extend(self, tokens: Ids, cache: KVCache) -> Extended:
        """See `WordReaderLM`. Raises ValueError for no token, or for more than there are places."""
        assert isinstance(cache, WrittenCache)
        ids = torch.as_tensor(tokens, dtype=torch.long, device=cache.past[0][0].device)
        single, ids = ids.ndim < 2, ids if ids.ndim == 2 else ids.reshape(1, -1)
        if not 0 < ids.shape[1] <= self.places - (cache.length - cache.base):
            raise ValueError(f"{ids.shape[1]} tokens do not fit behind {cache.length - cache.base} of {self.places}")
        logits, cache.past, attention = self.network.writer(ids, cache.past, cache.image)
        logits, attention = logits.float(), attention.float()
        return Extended(logits[0] if single else logits, attention=attention[0] if single else attention)


def loading(
    build: Callable[[Mapping[str, Any]], Any], fields: Sequence[str]
) -> Callable[[Path, str, Any, str, Mapping[str, Any]], Any]:
    """What reads such a network from a folder, by name, in a type, on a device, with the options given. fields: of its
    config.json. Raises UserError if the stored tensors do not fit that, or for an option that it has not."""

    def load(folder: Path, name: str, dtype: Any, device: str, options: Mapping[str, Any]) -> Any:
        if wish := next((key for key in ("device_map", "quantization") if options.get(key) is not None), None):
            raise UserError(f"{wish} is not an option of a model that sees and '{name}' is one; leave it out.")
        config, weights = read_json(folder / "config.json"), stored.read(shards(folder)[0])
        if lacking := [field for field in fields if field not in config]:
            raise UserError(f"config.json of '{name}' lacks {lacking[0]}; such a model's says {', '.join(fields)}.")
        network = build(config)
        wanted = {key: t.shape for key, t in network.state_dict().items() if t.dim()}
        if wanted != {key: t.shape for key, t in weights.items()}:
            raise UserError(
                f"the weights of '{name}' are not those its config.json describes; restore the folder or train it "
                "again."
            )
        network.load_state_dict(weights, strict=False)  # batch norms count their batches, which nobody asks here
        return network.to(device=device, dtype=torch.bfloat16 if dtype == "auto" else dtype)

    return load


LOADED = (loading(build, FIELDS), HFWordReader)  # how a network is read from its folder, and what stands around it
