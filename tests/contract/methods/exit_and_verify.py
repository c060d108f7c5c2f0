"""The contract's method of a layered model: the first layers and the head draft, the other layers verify all drafts at
once on what the first ones left behind (the loop of Kangaroo, arXiv 2404.18911, without its adapter)."""

from engines.kit import Int, max_new_tokens, method, torch


@method(
    "exit-and-verify",
    title="Early exit and verification",
    family="own",
    paper="",
    summary="Drafts with the first layers, verifies with the rest.",
    needs="layered",
    params=[
        max_new_tokens(24),
        Int("exit_layer", 3, 1, 30, help="More layers draft better and dearer."),
        Int("drafts", 3, 1, 8, help="More drafts are verified at once."),
    ],
    emits={"commits", "facts"},
    baseline="greedy",
    lossless=True,
)
def decode(model, prompt, p, run):
    """Before every turn all layers hold all ids but the last."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache, draft = model.new_cache(end + p.drafts), model.playing("draft")
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        base, chain = cache.length, ids[cache.length :]
        h = [model.layers(model.embed(chain), cache, 0, p.exit_layer)]
        guesses = []
        while len(guesses) < min(p.drafts, end - len(ids) - 1):
            z = draft.unembed(h[-1][-1:], predicts=len(ids) + len(guesses))
            guesses.append(int(z[0].argmax()))
            h.append(draft.layers(draft.embed(guesses[-1:]), cache, 0, p.exit_layer))
        lengths = cache.lengths
        rows = torch.cat(h)  # [chain and guesses, d]
        z = model.unembed(model.layers(rows, cache, p.exit_layer, model.num_layers), predicts=base + 1)
        wanted = z[len(chain) - 1 :].argmax(-1).tolist()
        taken = next((i for i, (a, b) in enumerate(zip(guesses, wanted, strict=False)) if a != b), len(guesses))
        new = [*guesses[:taken], wanted[taken]]
        new = new[: next((i + 1 for i, token in enumerate(new) if token in model.eos_ids), len(new))]
        at = list(range(len(ids), len(ids) + len(new)))
        ids = [*ids, *new]
        cache.crop(min(len(ids) - 1, cache.length))
        edit = yield run.step(
            commits=(at, new, "accepted"), facts={"first layer": float(lengths[0]), "last layer": float(lengths[-1])}
        )
        ids = run.apply_edit(edit, ids, cache)
