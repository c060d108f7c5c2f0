from itertools import islice

from engines.driver.run import run
from engines.kit import show
from engines.methods.diffusion.prophet.bars import calibrated_bars
from engines.tasks import TASKS

layout = {"constraints": "27:answer", "answer_length": 3}  # three digits stand behind "answer "
alike = (
    e.prompt for e in TASKS["add"].generate("train", size=3) if e.answer.index("answer") == 26 and "457" not in e.prompt
)  # the same layout
never = {"bar_early": 100, "bar_mid": 100, "bar_late": 100}
bars = calibrated_bars(
    run("prophet", "tiny-dlm", prompt, params={**layout, **never}, detail="light") for prompt in islice(alike, 20)
)
print("calibrated on 20 other sums:", bars)
show("prophet", "tiny-dlm", "add: 457 + 286", **layout, **bars)
