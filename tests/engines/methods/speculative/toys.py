"""Pairs of tables for the tests of drafters."""

from tests.engines.fakes import TableCausal


def pair(seed=0, memory=None, eos_ids=(), vocab_size=5, **options):
    """A target and a drafter that agree now and then."""
    target = TableCausal(vocab_size=vocab_size, seed=seed, memory=memory, eos_ids=eos_ids, **options)
    return {"target": target, "draft": TableCausal(vocab_size=vocab_size, seed=seed + 1, memory=1, eos_ids=eos_ids)}
