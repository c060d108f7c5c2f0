from engines.kit import show

show("llada22", "tiny-blockdlm", "sort: Ella, Alan, Vera, Finn, Zoe, Fred")
