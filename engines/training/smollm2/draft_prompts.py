"""Training prompts of the draft model: a small grammar of templates and slots, one group of templates per class.

A slot `{name}` stands for any entry of `SLOTS[name]`, which may hold slots itself; `{n}` for a number from 2 to 99. The
grammar has no recursion, so the set of all its prompts is a regular language: `pattern` gives it, and a test holds that
no evaluation prompt is in it."""

from __future__ import annotations

import random
import re

CLASSES = ("chat", "translation", "summary", "question answering", "maths", "retrieval", "code", "editing")

SLOTS: dict[str, tuple[str, ...]] = {
    "name": tuple(
        "Alice Bruno Clara David Elena Felix Grace Hugo Irene Jonas Karin Louis Maria Nadia Oscar Paula Quentin Rosa "
        "Simon Teresa Victor Wanda".split()
    ),
    "city": tuple(
        "Lisbon Kyoto Boston Vienna Nairobi Toronto Dublin Prague Seoul Athens Bogota Hanoi Geneva Porto Chicago "
        "Warsaw Havana Cardiff Tunis".split()
    ),
    "country": tuple(
        "Portugal Japan Canada Austria Kenya Brazil Ireland Norway Greece Colombia Vietnam Poland Egypt Mexico Chile "
        "India Sweden".split()
    ),
    "animal": tuple(
        "dolphin eagle tortoise fox owl camel otter wolf penguin beaver spider whale horse octopus honeybee squirrel "
        "salmon bat".split()
    ),
    "food": tuple(
        "bread soup pancakes lasagna salad pizza curry yoghurt pickles jam dumplings risotto porridge tea coffee "
        "chocolate".split()
    ),
    "job": tuple(
        "nurse teacher carpenter pilot baker journalist farmer plumber architect librarian chemist gardener "
        "firefighter tailor".split()
    ),
    "hobby": tuple(
        "chess photography knitting hiking painting cycling pottery swimming juggling gardening running drawing "
        "sailing yoga".split()
    ),
    "thing": tuple(
        "apples marbles books stamps tickets eggs coins stickers cookies bottles flowers pens cards chairs oranges "
        "shells".split()
    ),
    "place": tuple(
        "garden museum harbour station market school castle forest bakery theatre village beach bridge workshop farm "
        "park".split()
    ),
    "weather": tuple("rainy windy sunny cold foggy stormy quiet warm snowy cloudy".split()),
    "colour": tuple("red green blue yellow purple orange black white brown grey".split()),
    "month": tuple("January March April May June July August September October November".split()),
    "day": tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()),
    "tongue": tuple("Spanish French German Italian Portuguese".split()),
    "topic": (
        *"gravity photosynthesis volcanoes inflation democracy electricity vaccines evolution magnets rainbows "
        "glaciers recycling batteries".split(),
        *"the moon|the water cycle|the human heart|black holes|solar panels|the French Revolution|the Silk Road|the "
        "Roman Empire|climate change".split("|"),
        *"machine learning|the internet|healthy sleep|public transport|the immune system|coral "
        "reefs|earthquakes|tides|the printing press".split("|"),
        *"ancient Egypt|jazz music|the Olympic Games|time zones|artificial intelligence|renewable energy|the stock "
        "market|deserts|bees".split("|"),
    ),
    "skill": (
        *"learn a new language|sleep better|save money|write a letter|prepare for an interview|cook rice|grow "
        "tomatoes|start running".split("|"),
        *"read faster|make new friends|plan a trip to {city}|train a puppy|clean a kitchen|study for an exam|speak in "
        "public|pack a suitcase".split("|"),
        *"reduce stress|organise a desk|remember names|make {food}|take up {hobby}|write a poem|choose a "
        "bicycle|repair a flat tyre".split("|"),
    ),
    "sentence": (
        "{name} walked to the {place} on {day} morning.",
        "The {place} was closed because it was a {weather} day.",
        "My brother works as a {job} in {city}.",
        "We ate {food} and talked about {hobby}.",
        "She bought {n} {thing} at the {place}.",
        "The train to {city} leaves at {hour} o'clock.",
        "{name} and {name} have been friends for {n} years.",
        "It was a {weather} evening in {city}.",
        "The {colour} house near the {place} is for sale.",
        "Nobody knew where the {animal} had gone.",
        "He forgot his {colour} coat at the {place}.",
        "In {month} the {place} is full of visitors.",
        "They want to open a small school for {hobby}.",
        "Please bring {n} {thing} and some {food} on {day}.",
        "The old {job} told us a story about a {animal}.",
        "I have never been to {country}, but I would like to go.",
    ),
    "hour": tuple(str(h) for h in range(1, 13)),
    "fact": (
        "The {place} in {city} was built in 1{n}0 and is visited by many people every {month}.",
        "A {animal} needs clean water and a quiet place to raise its young.",
        "{name} is a {job} who moved from {city} to {city} in 19{n}.",
        "The main dish of the region is {food}, which is served with {food}.",
        "Every {day} the people of {city} meet at the {place} to practise {hobby}.",
        "The project about {topic} took {n} months and cost {n} thousand dollars.",
        "Scientists in {country} studied {topic} for more than {n} years.",
        "In {month} the weather in {city} is usually {weather}.",
        "The company sells {thing} and {thing} in {country} and {country}.",
        "Visitors can learn about {topic} at the {place}, which opens at {hour} o'clock.",
        "{name} won the prize for {hobby} in {month} with {n} points.",
        "About {n} percent of the families in {country} keep a {animal}.",
    ),
    "passage": (
        "{fact} {fact} {fact}",
        "{fact} {sentence} {fact} {fact}",
        "{sentence} {fact} {fact} {sentence}",
        "{fact} {fact} {fact} {fact} {fact}",
    ),
    "wrong": (
        "{name} go to the {place} every {day}.",
        "She have {n} {thing} and one {animal}.",
        "He don't likes {food}.",
        "Yesterday we eat {food} in {city}.",
        "the {animal} are sleeping near the {place}",
        "They was at the {place} in {month}.",
        "I am agree with {name} about the {thing}.",
        "My friend live in {city} since {n} years.",
    ),
    "person": (
        "{name} lives in {city}.",
        "{name} works as a {job}.",
        "{name} likes {hobby}.",
        "{name} owns a {animal}.",
        "{name} was born in {country}.",
        "{name} ordered {food}.",
        "{name} has {n} {thing}.",
    ),
    "list": (
        "{thing}, {thing}, {thing}, {thing}",
        "{animal}, {animal}, {animal}, {animal}, {animal}",
        "{city}, {city}, {city}, {city}",
        "{n}, {n}, {n}, {n}, {n}",
    ),
    "task": (
        *"adds two numbers|returns the largest number in a list|counts the words in a text|reverses a string|sums the "
        "even numbers in a list".split("|"),
        *"computes the factorial of n|returns the first n Fibonacci numbers|removes duplicates from a list|checks "
        "whether a number is prime".split("|"),
        *"converts Celsius to Fahrenheit|finds the shortest word in a list|merges two dictionaries|counts the vowels "
        "in a string".split("|"),
        *"returns the average of a list|sorts a list of tuples by the second item|reads a file and prints its "
        "lines|squares every number in a list".split("|"),
        *"checks whether a year is a leap year|computes the area of a circle|returns the last n items of a list|joins "
        "words with a comma".split("|"),
        *"finds the greatest common divisor of two numbers|capitalises every word|removes spaces from a string|rolls "
        "a die with {n} sides".split("|"),
    ),
    "function": (
        "def add(a, b):\n    return a + b",
        "def total(values):\n    result = 0\n    for value in values:\n        result = result + value\n    return "
        "result",
        "def is_even(n):\n    if n % 2 == 0:\n        return True\n    return False",
        "def largest(items):\n    best = items[0]\n    for item in items:\n        if item > best:\n            best "
        "= item\n    return best",
        "class {name}:\n    def __init__(self, {thing}):\n        self.{thing} = {thing}",
        "def {animal}_{thing}(count):\n    for i in range(count):\n        print('{animal}', i + {n})",
        "{thing} = [{n}, {n}, {n}]\nfor item in {thing}:\n    print(item * {n})",
        "def {colour}_{place}(x, y={n}):\n    z = x * y + {n}\n    return z",
    ),
    "sum": (
        "{name} has {n} {thing} and buys {n} more. How many {thing} does {name} have now?",
        "A {job} works {hour} hours a day for {n} days. How many hours is that in total?",
        "A ticket to {city} costs {n} dollars. How much do {hour} tickets cost?",
        "{name} picks {n} {thing} and gives {hour} of them to {name}. How many remain?",
        "There are {n} rows with {hour} chairs each in the {place}. How many chairs are there?",
        "A {animal} eats {hour} kilograms of food a day. How much does it eat in {n} days?",
        "What is {n} + {n}?",
        "What is {n} times {hour}?",
        "What is {n} - {hour} + {n}?",
        "{name} reads {n} pages every day. How many pages are read in {hour} weeks?",
        "A box holds {n} {thing}. How many {thing} are in {hour} boxes if {hour} of the {thing} are broken?",
    ),
}

TEMPLATES: dict[str, tuple[str, ...]] = {
    "chat": (
        "Tell me about {topic}.",
        "Explain {topic} to a child.",
        "How can I {skill}?",
        "Why is {topic} important?",
        "What are the advantages and disadvantages of {topic}?",
        "Give me some advice: I want to {skill}.",
        "Write a short paragraph about a {animal} and a {job}.",
        "Write a short letter from {name} to {name} about {hobby}.",
        "What should I see in {city}?",
        "Describe a {weather} day at the {place}.",
        "What does a {job} do all day?",
        "Suggest {hour} ideas for a party about {topic}.",
        "Write a poem about a {colour} {animal}.",
        "What is the difference between {topic} and {topic}?",
        "I feel tired after {hobby}. What could help?",
    ),
    "translation": (
        "Translate into {tongue}: {sentence}",
        "How do you say this in {tongue}? {sentence}",
        "Translate the following sentence from English to {tongue}.\n{sentence}",
        "Please give me the {tongue} version of: {sentence} {sentence}",
    ),
    "summary": (
        "Summarize the following text in one sentence.\n\n{passage}",
        "Give a short summary: {passage}",
        "What is the main point of this text?\n{passage}",
        "Summarize: {passage}",
        "Write a headline for this story.\n{story}",
        "Summarize this story in two sentences: {story}",
    ),
    "question answering": (
        "What is {topic}?",
        "Where is {country} and what is it known for?",
        "What does a {animal} eat?",
        "How does {topic} work?",
        "Which language is spoken in {country}?",
        "Name three facts about {topic}.",
        "Is a {animal} bigger than a {animal}?",
        "What is the capital of {country}?",
        "How long does it take to {skill}?",
        "Text: {passage}\nQuestion: What is the text about?",
        "{passage}\n\nBased on this text, answer: what happens in {city}?",
    ),
    "maths": (
        "{sum}",
        "Solve this problem step by step: {sum}",
        "{sum} Show your work.",
        "Question: {sum}\nAnswer:",
        "Compute ({n} + {n}) * {hour} and explain each step.",
        "What is {n} percent of {n}0?",
    ),
    "retrieval": (
        "Documents:\n[1] {fact}\n[2] {fact}\n[3] {fact}\nAnswer from the documents: which of them mentions {city}?",
        "Context: {fact} {fact}\nRepeat the sentence about {topic}.",
        "Here are some notes. {person} {person} {person} {person}\nWho is mentioned, and what do we know about them?",
        "Use only this passage to answer.\n{passage}\nWhat does it say about {country}?",
        "Find the number in the text: {fact}",
        "Notes: {person} {person} {person}\nWrite the notes as a list.",
    ),
    "code": (
        "Write a Python function that {task}.",
        "Write a short Python program that {task}.",
        "How do I write code that {task} in Python?",
        "Explain this code:\n```python\n{function}\n```",
        "Write a test for this function:\n{function}",
        "Write a JavaScript function that {task}.",
        "Show an example of a Python class for a {job} with two methods.",
    ),
    "editing": (
        "Correct the mistakes: {wrong} {wrong}",
        "Rewrite this text and change nothing but the name {name} to {name}: {sentence} {sentence} {sentence}",
        "Copy the following text exactly:\n{passage}",
        "Repeat after me: {sentence} {sentence}",
        "Write this list in alphabetical order: {list}",
        "Add type hints to this code:\n{function}",
        "Rename the variables in this code so that they are clearer:\n```python\n{function}\n```",
        "Put each of these on its own line: {list}",
        "Rewrite in the past tense: {sentence} {sentence}",
        "Make this text more polite: {wrong} {sentence}",
        "Continue the story.\n{story}",
    ),
}

SLOT = re.compile(r"\{([a-z]+)\}")


def expand(template: str, rng: random.Random, stories: list[str]) -> str:
    """One prompt of a template. `{story}` is one of the given texts, or a passage where there are none."""

    def fill(match: re.Match[str]) -> str:
        slot = match[1]
        if slot == "n":
            return str(rng.randint(2, 99))
        if slot == "story" and stories:
            return rng.choice(stories)
        return SLOT.sub(fill, rng.choice(SLOTS["passage" if slot == "story" else slot]))

    return SLOT.sub(fill, template)


def draw(rng: random.Random, stories: list[str]) -> tuple[str, str]:
    """(class, prompt), every class as often as any other."""
    name = rng.choice(CLASSES)
    return name, expand(rng.choice(TEMPLATES[name]), rng, stories)


def pattern(template: str) -> re.Pattern[str]:
    """The language of a template as a regular expression; `{story}` is any text."""

    def language(text: str) -> str:
        parts = SLOT.split(text)  # plain text and slot names in turn
        return "".join(re.escape(part) if i % 2 == 0 else alternatives(part) for i, part in enumerate(parts))

    def alternatives(slot: str) -> str:
        if slot == "n":
            return r"\d{1,2}"
        return r"[\s\S]+" if slot == "story" else f"(?:{'|'.join(map(language, SLOTS[slot]))})"

    return re.compile(language(template))
