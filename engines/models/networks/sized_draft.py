"""Drafts of several sizes for one target: a Llama body of width d between the target's own embedding and output rows,
reached by two projections, so that nearly all that is learnt is the body.

Shapes: b rows of n tokens, D the target's hidden size, d the draft's, V vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

HEAD = 16  # size of an attention head


@dataclass(frozen=True)
class Size:
    """A draft's width d and its layers."""

    d: int
    layers: int

    @property
    def name(self) -> str:
        """As checkpoints are called."""
        return f"d{self.d}x{self.layers}"

    @property
    def body(self) -> int:
        """Parameters of the layers: N, without embedding, output rows and the projections to them."""
        return self.layers * (4 * self.d**2 + 3 * self.d * self.inner + 2 * self.d)

    @property
    def inner(self) -> int:
        """Channels of the feed-forward parts: 8/3 d, in whole eights."""
        return 8 * round(self.d / 3)


SIZES = (Size(16, 1), Size(32, 1), Size(64, 1), Size(64, 4))


class SizedDraft(nn.Module):
    """logits = E W_out body(W_in E[tokens]); E [V, D] is the target's, frozen and not kept in the state."""

    def __init__(self, size: Size, embedding: Tensor, positions: int) -> None:
        super().__init__()
        D = embedding.shape[1]
        self.size = size
        self.register_buffer("E", embedding.detach().float(), persistent=False)
        self.W_in, self.W_out = nn.Linear(D, size.d, bias=False), nn.Linear(size.d, D, bias=False)
        self.body = LlamaModel(
            LlamaConfig(
                vocab_size=1,
                hidden_size=size.d,
                intermediate_size=size.inner,
                num_hidden_layers=size.layers,
                num_attention_heads=size.d // HEAD,
                num_key_value_heads=size.d // HEAD,
                max_position_embeddings=positions,
                attn_implementation="sdpa",
                bos_token_id=None,
                eos_token_id=None,
            )
        )
        self.body.embed_tokens = nn.Identity()  # it is fed embeddings

    def states(self, tokens: Tensor) -> Tensor:
        """tokens [b, n] -> [b, n, D], to be read with E."""
        E: Tensor = self.E  # type: ignore[assignment]
        x = self.W_in(nn.functional.embedding(tokens, E) * E.shape[1] ** 0.5)
        return self.W_out(self.body(inputs_embeds=x, use_cache=False).last_hidden_state)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [b, n] -> logits [b, n, V]; every token sees those before it."""
        return self.states(tokens) @ self.E.T  # type: ignore[operator]


class Entrance(nn.Module):
    """tokens [b, n] -> what the body reads [b, n, d]."""

    def __init__(self, draft: SizedDraft) -> None:
        super().__init__()
        self.register_buffer("E", draft.E, persistent=False)
        self.W_in = draft.W_in

    @property
    def weight(self) -> Tensor:
        """The projection [d, D], by which others see where this module is."""
        return self.W_in.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """See the class."""
        E: Tensor = self.E  # type: ignore[assignment]
        return self.W_in(nn.functional.embedding(tokens, E) * E.shape[1] ** 0.5)


class Exit(nn.Module):
    """The body's states [b, n, d] -> logits [b, n, V]."""

    def __init__(self, draft: SizedDraft) -> None:
        super().__init__()
        self.register_buffer("E", draft.E, persistent=False)
        self.W_out = draft.W_out

    def forward(self, h: Tensor) -> Tensor:
        """See the class."""
        return self.W_out(h) @ self.E.T  # type: ignore[operator, no-any-return]


def of_state(size: Size, state: Mapping[str, Tensor], embedding: Tensor, positions: int) -> SizedDraft:
    """A trained draft, in float32, from its tensors by their names in the module."""
    draft = SizedDraft(size, embedding, positions)
    draft.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return draft.requires_grad_(False).eval()


def parameters(draft: SizedDraft) -> int:
    """What was learnt: body, projections and the last norm."""
    return sum(tensor.numel() for tensor in draft.parameters())
