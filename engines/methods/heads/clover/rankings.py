"""What each depth ranks, given the guesses that came back to it, and what the control ranks, which no guess reaches."""

from collections.abc import Mapping
from typing import Any

from engines.kit import Params, Record, Tensor, torch
from engines.methods.heads._rankings import Ranking, rankings_of
from engines.models.networks.exits import Past


class Rankings(Record):
    """What the drafter ranked after each row of the tree that it went on from, and at each depth the control, whose
    heads see no guess."""

    linked: bool  # whether guesses came back as inputs
    rows: list[int]  # of the tree, one for each of `ranked`
    ranked: list[Ranking]
    control: list[Ranking] = []  # by depth; empty where none ships, and where the control itself drafted


class Control:
    """The heads that see no guess, beside a run that they do not draft for. They read the states that the drafter's
    block reads, and only while a step is recorded."""

    def __init__(self, model: Any, net: Any | None, vocabulary: Tensor | None, p: Params) -> None:
        """net: None where there are none to compare with."""
        self.model, self.vocabulary, self.linked, self.past = model, vocabulary, bool(p.link), Past()
        self.net = net.to(model.record.device) if net is not None and p.link else None
        self.unread: Tensor | None = None  # states h [n, d] of the newest rows
        self.a: Tensor | None = None  # the augmented state [d] at the last row that was read

    def accept(self, h: Tensor, length: int) -> None:
        """The states of the rows that a step added, of which the text keeps those before position `length`."""
        self.past.crop(length)
        self.unread = h[: max(0, length - self.past.length)]

    def beside(self, ranked: Mapping[int, Ranking], depths: int, position: int, block: bool) -> Rankings | None:
        """What the drafter ranked after these rows of the tree, and the control for its `depths` places from `position`
        on; None where nothing was drafted."""
        control = self._ranked(depths, position, block) if self.net is not None else []
        both = [[ranking.rounded() for ranking in rankings] for rankings in (ranked.values(), control)]
        return Rankings(self.linked, [*ranked], *both) if ranked else None

    def _ranked(self, depths: int, position: int, block: bool) -> list[Ranking]:
        from engines.models.networks.clover_drafter import augmented  # it needs torch, which listing does not load

        assert self.net is not None
        if self.unread is not None and len(self.unread):
            states = augmented(self.net.block, self.unread, self.past)
            self.a, self.unread = (states if block else self.unread.float())[-1], None
        if not depths or self.a is None:
            return []
        x = torch.cat([self.net.said(self.a[None], i) for i in range(depths)])
        return rankings_of(self.model.unembed(x, self.vocabulary, normed=True, predicts=position), self.vocabulary)
