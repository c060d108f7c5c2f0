"""Decoding loops as somebody else would write them: on a bare module, without anything of this project."""

import torch
import transformers
from hypothesis import settings
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutput, CausalLMOutputWithPast

import engines

V, MASK = 40, 39
PLAIN = settings(derandomize=True, deadline=None, database=None)  # of laws about random loops


def followed(model, loop, **told):
    """(trace, output) of a loop: the trace ends with what it gave, however often it is asked for, and no hook is
    left."""
    with engines.watch(model, **told) as seen, torch.no_grad():
        out = loop()
    trace = seen.trace(out)
    assert trace.end.reason == "complete", trace.end.message
    given = getattr(out, "sequences", out)[0].tolist()
    assert [*trace.header.prompt_ids, *trace.output_ids][-len(given) :] == given
    assert seen.trace(out) == trace == engines.read_trace(trace.to_json())
    for watched in model.values() if isinstance(model, dict) else [model]:
        assert not any(one._forward_hooks or one._forward_pre_hooks for one in watched.modules())
    return trace, out


def said(trace):
    """What a trace tells in words."""
    return trace.end.message + trace.header.departures


def best(out):
    """[B, 1], the likeliest next tokens."""
    return getattr(out, "logits", out)[:, -1:].argmax(-1)


def tiny(cls="Llama", **more):
    """A causal network of two layers with random weights, sure of what it says."""
    torch.manual_seed(1)
    sizes = {"vocab_size": V, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    config = getattr(transformers, f"{cls}Config")(**{**sizes, **heads, **ends, **more})
    model = getattr(transformers, f"{cls}ForCausalLM")(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(40)
    return model


def written(trace):
    """(position, token, cause) of all that the steps wrote."""
    commits = [s.commits for s in trace.steps if s.commits]
    return [one for c in commits for one in zip(c.positions, c.tokens, c.causes, strict=True)]


@torch.no_grad()
def llada(model, prompt, *, length, block, steps, mask_id, scale=0.0):
    """LLaDA's sampler: a fixed quota of the surest tokens, block by block. prompt [B, P]."""
    x = torch.full((len(prompt), prompt.shape[1] + length), mask_id)
    x[:, : prompt.shape[1]] = prompt
    given = x != mask_id
    blocks = length // block
    for number in range(blocks):
        start, end = prompt.shape[1] + number * block, prompt.shape[1] + (number + 1) * block
        per = steps // blocks
        for turn in range(per):
            if scale:
                blind = x.clone()
                blind[given] = mask_id
                seen, unseen = model(torch.cat([x, blind])).logits.chunk(2)
                logits = unseen + (scale + 1) * (seen - unseen)
            else:
                logits = model(x).logits
            logits[..., mask_id] = -torch.inf  # in place: whoever kept a reference sees it
            chances, best = logits.softmax(-1).max(-1)
            chances = torch.where(x == mask_id, chances, -torch.inf)
            chances[:, end:] = -torch.inf
            for row in range(len(x)):
                left = int((x[row, start:end] == mask_id).sum())
                n = -(-left // (per - turn))
                chosen = chances[row].topk(n).indices
                x[row, chosen] = best[row, chosen]
    return x


@torch.no_grad()
def fast_dllm(model, x, start, *, block, threshold, mask_id, dual):
    """Fast-dLLM's loop with a prefix or a dual cache. `model(x, past_key_values=, use_cache=, replace_position=)`."""
    for a in range(start, x.shape[1], block):
        b = a + block
        out = model(x, use_cache=True)
        cache = out.past_key_values
        write(x, out.logits, slice(0, x.shape[1]), b, threshold, mask_id)
        if not dual:
            cache = [tuple(one[:, :, :a] for one in layer) for layer in cache]
        place = torch.zeros_like(x, dtype=torch.bool)
        place[:, a:b] = True
        while (x[:, a:b] == mask_id).any():
            end = b if dual else x.shape[1]
            more = {"replace_position": place} if dual else {}
            logits = model(x[:, a:end], past_key_values=cache, use_cache=True, **more).logits
            write(x, logits, slice(a, end), b, threshold, mask_id)
    return x


def write(x, logits, fed, end, threshold, mask_id):
    """Every open position of the block that is sure enough, and always the surest."""
    logits[..., mask_id] = -torch.inf
    chances, best = logits.double().softmax(-1).max(-1)
    at = torch.arange(x.shape[1])[fed]
    chances = torch.where((x[:, fed] == mask_id) & (at < end), chances, -torch.inf)
    ready = chances >= min(threshold, float(chances.max()))
    x[:, fed] = torch.where(ready, best, x[:, fed])


class Llada(torch.nn.Module):
    """A module as LLaDA's: row i of its logits is the distribution of token i."""

    def __init__(self, dream):
        super().__init__()
        self.model, self.config = dream.model, dream.config
        self.dream = [dream]

    def forward(self, input_ids, attention_mask=None):
        logits = self.dream[0](input_ids, use_cache=False).logits
        return CausalLMOutput(logits=torch.cat([logits[:, :1], logits[:, :-1]], 1))


class FastDllm(torch.nn.Module):
    """A module as Fast-dLLM's: tuples of keys and values in and out, and places of a cache that are replaced, which may
    be told under a name that says nothing."""

    def __init__(self, model):
        super().__init__()
        self.model = model.model
        self.dlm = [model]
        self.config = self.model.config

    def forward(self, input_ids, past_key_values=None, use_cache=False, replace_position=None, where=None):
        dlm, n, place = self.dlm[0], input_ids.shape[1], replace_position if where is None else where
        if past_key_values is None:
            self.cache = dlm.new_cache(n)
            self.x = input_ids[0].clone()
            start = 0
        else:
            start = past_key_values[0][0].shape[2]
            if place is not None:
                start = int(place[0].nonzero()[0])
        self.x[start : start + n] = input_ids[0]
        logits = dlm.feed(self.x, self.cache, start, start + n)[None]
        layers = [(layer.keys, layer.values) for layer in self.cache.layers]
        kept = layers[0][0].shape[2] if past_key_values is None else past_key_values[0][0].shape[2]
        return CausalLMOutputWithPast(
            logits=logits, past_key_values=[(k[:, :, :kept], v[:, :, :kept]) for k, v in layers]
        )


@torch.no_grad()
def tree_drafting(model, ids, *, tokens, eos, guess):
    """Greedy verification of a draft tree: two guesses below the root, two below the first of them, one below each.
    `guess(text, k)` names k tokens. Returns the text and (accepted, emitted) of every round."""
    parents = [-1, 0, 0, 1, 1, 3, 2]
    cache, rounds = DynamicCache(), []
    text = ids[0].tolist()
    start = len(text)
    model(ids[:, :-1], past_key_values=cache, use_cache=True)
    while len(text) - start < tokens:
        rows, paths = [text[-1]], [text]
        for row in range(1, len(parents)):
            above = parents[row]
            rank = sum(parent == above for parent in parents[:row])
            rows.append(guess(paths[above], 2)[rank])
            paths.append([*paths[above], rows[-1]])
        past, n = cache.get_seq_length(), len(rows)
        sees = torch.zeros(n, n, dtype=torch.bool)
        for row, parent in enumerate(parents):
            if parent >= 0:
                sees[row] = sees[parent]
            sees[row, row] = True
        mask = torch.cat([torch.ones(n, past, dtype=torch.bool), sees], 1)
        mask = torch.where(mask, 0.0, torch.finfo(torch.float32).min)[None, None]
        places = (past + sees.sum(1) - 1)[None]
        out = model(torch.tensor([rows]), attention_mask=mask, position_ids=places, past_key_values=cache)
        wanted, path = out.logits[0].argmax(-1).tolist(), []
        below = [0]
        while below:
            path.append(below[0])
            below = [r for r in range(n) if parents[r] == path[-1] and rows[r] == wanted[path[-1]]]
        gained = [*(rows[r] for r in path[1:]), wanted[path[-1]]]
        gained = gained[: next((i + 1 for i, token in enumerate(gained) if token in eos), len(gained))]
        rounds.append((path[1:], gained))
        text = [*text, *gained]
        for layer in cache.layers:  # keep the rows of the path
            at = torch.tensor([*range(past), *(past + r for r in path)])
            layer.keys, layer.values = layer.keys[:, :, at], layer.values[:, :, at]
        if text[-1] in eos:
            break
    return torch.tensor([text]), rounds


@torch.no_grad()
def simple_speculation(target, draft, ids, *, tokens, ahead):
    """Greedy speculation as it is taught: both models are fed the whole text every time. Returns the text and the
    number of drafts accepted in every round."""
    text, rounds, start = ids[0].tolist(), [], ids.shape[1]
    while len(text) - start < tokens:
        drafted = list(text)
        for _ in range(ahead):
            drafted.append(int(draft(torch.tensor([drafted]), use_cache=False).logits[0, -1].argmax()))
        best = target(torch.tensor([drafted]), use_cache=False).logits[0].argmax(-1).tolist()
        n = len(text)
        while n < len(drafted) and drafted[n] == best[n - 1]:
            n += 1
        rounds.append(n - len(text))
        text = [*drafted[:n], best[n - 1]]
    return torch.tensor([text]), rounds
