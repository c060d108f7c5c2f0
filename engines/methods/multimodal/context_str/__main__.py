from engines.kit import show

show("context-str", "tiny-reader", "cafe")
