from engines.kit import show

show("encoder-return", "tiny-encdec", "ask: Which cities? Mia lives in Rome. Ben has a kite. Ada lives in Bonn.")
