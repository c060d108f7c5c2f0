from engines.kit import show

show("dimple", "tiny-dlm", "add: 457 + 286")
show("dimple", "tiny-dlm", "add: 457 + 286", structure_prior="6:=|15:=|24:=|26:\\nanswer |32:<eos>")
