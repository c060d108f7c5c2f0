// Made by `python -m explorer.export.bundle` from the views' own files. Do not edit.

export const VIEWS = [
  { file: "counters", name: "Counters", title: "", place: 10, needs: [] },
  { file: "difference", name: "Difference", title: "", place: 20, needs: [] },
  { file: "completions", name: "Completions", title: "Code and completions", place: 25, needs: ["completions"] },
  { file: "text", name: "Text", title: "Generated text", place: 30, needs: [] },
  { file: "tokens", name: "Tokens", title: "Token board", place: 40, needs: [] },
  { file: "predict", name: "Predict", title: "Predict what comes next", place: 50, needs: ["masked", "tree"] },
  { file: "tree", name: "DraftTree", title: "Draft tree", place: 60, needs: ["tree"] },
  { file: "gantt", name: "Gantt", title: "Devices and workers", place: 70, needs: ["lanes"] },
  { file: "memory", name: "Memory", title: "Memory", place: 80, needs: ["memory"] },
  { file: "ribbon", name: "Ribbon", title: "Choice of model or mode", place: 90, needs: ["choice"] },
  { file: "lanes", name: "Lanes", title: "Scores over steps", place: 100, needs: ["scores"] },
  {
    file: "hindsight",
    name: "Hindsight",
    title: "Hindsight: decodable before it was committed",
    place: 110,
    needs: ["candidates+end"],
  },
  { file: "facts", name: "Facts", title: "Numbers of the method, as recorded", place: 120, needs: ["facts"] },
  { file: "branches", name: "Branches", title: "Branches", place: 130, needs: ["branches"] },
  { file: "media", name: "Media", title: "Picture tokens", place: 140, needs: ["media"] },
  { file: "routing", name: "Routing", title: "Routing", place: 150, needs: ["routing"] },
  { file: "compact", name: "Compact", title: "", place: "toolbar", needs: [] },
  { file: "race", name: "Race", title: "Race", place: "toolbar", needs: [] },
  { file: "verdict", name: "Verdict", title: "", place: "toolbar", needs: [] },
];
