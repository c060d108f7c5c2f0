"""What is said of the numbers, for the page and for the static site: a little Markdown (### heads, - lists, **bold**, *slanted*)."""

from explorer.definitions import KINDS

NUMBERS = f"""### How the numbers are obtained
Each number is one of four things, and says which: {"; ".join(f"**{kind}**, {text}" for kind, text in KINDS.items())}.
Click a number in a player, in a race or in a table of results, or press Enter on it: its receipt opens.

- Time is the model's time plus the method's time. Recording, sending and drawing are outside; warm-up is reported apart.
- Tokens are ids emitted before the first end mark. They are never counted by splitting text again.
- A baseline is a run, not a formula. Runs in several slots go one after the other, each with its own clock.
- An output is marked right or wrong only where the prompt is one of the checkable tasks, by an exact comparison.
- What a method here does differently from its paper stands in the table of methods and in the head of each player.
"""

KEYS = """### Keyboard
In a player or its toolbar: **space** plays and pauses, **←** and **→** step, **Home** and **End** jump, **[** and **]** change the speed.
"""

SWEEPS = """### What a method adds to a plain threshold
Most published speed-ups of parallel decoding are told against one token per forward, while committing everything above a fixed confidence already takes
most of them. So each method stands before the sweep of that threshold on the same model and prompts: a dot above the line is better than any threshold
at that cost, a dot on it is as good as one, a dot below it is worse. Bars are 95 % intervals (Wilson); answers are checked exactly; nothing is timed here.
"""
