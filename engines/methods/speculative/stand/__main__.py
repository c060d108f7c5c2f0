import sys

import engines

chosen = sys.argv[1] if len(sys.argv) > 1 else "tiny-ar-l"
question = (
    "Tom has 3 boxes with 12 pencils each. How many pencils has he? Think step by step."
    if chosen == "smollm2"
    else "add: 457 + 86"
)
for drafting in ("stochastic", "deterministic"):
    options = {"trajectories": 4, "temperature": 0.7, "drafting": drafting}
    run = engines.run("stand", chosen, question, params=options, detail="light")
    for last in (step for step in run.steps if step.branches[0].fate != "alive"):
        shown = {
            name: round(last.facts[name], 2)
            for name in ("sample_forwards", "tokens_per_forward", "overlap_2", "overlap_4")
            if name in last.facts
        }
        print(drafting, "sample", int(last.facts["trajectory"]), shown)
