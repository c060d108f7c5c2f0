from engines.kit import show

show("mgd", "smollm2-text", "from book import Book\n\nbook = Book()\nbook.")
