"""What the kinds of scenes look like. A painter fills the canvas and tells the colour that the word is written on and
the room (left, top, right, bottom) for it; chance gives what the caption does not say, `side` where the thing is."""

import random
from collections.abc import Callable, Sequence
from math import cos, pi, sin
from typing import Any

HEIGHT, WIDTH = 128, 256
Colour = tuple[int, int, int]
Room = tuple[float, float, float, float]
Painter = Callable[[Any, random.Random, Colour, int], tuple[Colour, Room]]
SKY, ROAD, GRASS, BRICK, WOOD = (170, 200, 225), (105, 107, 112), (110, 150, 85), (165, 105, 85), (160, 120, 80)


def shade(colour: Sequence[float], by: float) -> Colour:
    """Lighter or darker."""
    r, g, b = (int(min(255, max(0, part * by))) for part in colour)
    return r, g, b


def _split(pen: Any, pick: random.Random, above: Colour, below: Colour, low: int = 70, high: int = 95) -> int:
    """Two grounds, and the row where they meet."""
    row = pick.randint(low, high)
    pen.rectangle((0, 0, WIDTH, row), fill=shade(above, pick.uniform(0.85, 1.08)))
    pen.rectangle((0, row, WIDTH, HEIGHT), fill=shade(below, pick.uniform(0.85, 1.1)))
    return row


def _middle(pick: random.Random, side: int, half: float) -> float:
    """Where the thing stands, so that it is all on the canvas."""
    return min(WIDTH - half - 4, max(half + 4, (50, 128, 206)[side] + pick.uniform(-10, 10)))


def _bricks(pen: Any, pick: random.Random, colour: Colour) -> None:
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=shade(colour, 0.8))
    for row in range(0, HEIGHT, 12):
        for left in range(-(row // 12 % 2) * 12, WIDTH, 24):
            pen.rectangle((left + 1, row + 1, left + 22, row + 10), fill=shade(colour, pick.uniform(0.92, 1.08)))


def road_sign(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """An octagon on a pole beside a road."""
    _split(pen, pick, SKY, pick.choice((ROAD, GRASS)))
    r = pick.uniform(40, 48)
    x, y = _middle(pick, side, r), pick.uniform(50, 58)
    pen.rectangle((x - 3, y, x + 3, HEIGHT), fill=(120, 120, 120))
    for radius, fill in ((r, (240, 240, 240)), (r - 4, colour)):
        ring = [(x + radius * cos(pi / 8 + i * pi / 4), y + radius * sin(pi / 8 + i * pi / 4)) for i in range(8)]
        pen.polygon(ring, fill=fill)
    return colour, (x - r + 2, y - 14, x + r - 2, y + 14)


def shop_front(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A striped awning, a sign board above it, windows and a door."""
    wall = shade(pick.choice(((205, 195, 175), (180, 170, 165))), pick.uniform(0.9, 1.05))
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=wall)
    board = shade(pick.choice(((70, 60, 52), (235, 228, 210))), 1.0)
    top = pick.randint(8, 14)
    pen.rectangle((34, top, 222, top + 34), fill=board)
    for i, left in enumerate(range(22, 234, 14)):
        pen.polygon(
            [(left, top + 40), (left + 14, top + 40), (left + 12, top + 60), (left - 2, top + 60)],
            fill=colour if i % 2 else (245, 242, 235),
        )
    door = (40, 112, 184)[side] + pick.randint(-6, 6)
    pen.rectangle((28, top + 64, 228, 118), fill=(150, 185, 200))
    pen.rectangle((door, top + 62, door + 34, HEIGHT), fill=shade(colour, 0.75))
    return board, (38, top, 218, top + 34)


def bus(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A long box with windows and wheels; its word below the windows."""
    _split(pen, pick, SKY, ROAD, 88, 100)
    left = (8, 20, 34)[side] + pick.randint(-4, 4)
    pen.rounded_rectangle((left, 22, left + 212, 108), 9, fill=colour)
    for x in range(left + 8, left + 200, 29):
        pen.rectangle((x, 30, x + 24, 56), fill=(190, 215, 230))
    for x in (left + 40, left + 165):
        pen.ellipse((x - 13, 97, x + 13, 123), fill=(35, 35, 38))
        pen.ellipse((x - 5, 105, x + 5, 115), fill=(160, 160, 160))
    return colour, (left + 14, 62, left + 198, 94)


def bottle(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A wide bottle with a label, on a table."""
    _split(pen, pick, (205, 200, 190), WOOD, 104, 112)
    x, glass = _middle(pick, side, 46), shade(pick.choice(((120, 165, 130), (150, 120, 85), (170, 195, 205))), 1.0)
    pen.rectangle((x - 14, 2, x + 14, 34), fill=glass)
    pen.rectangle((x - 15, 0, x + 15, 9), fill=(90, 80, 70))
    pen.rounded_rectangle((x - 45, 26, x + 45, 122), 12, fill=glass)
    pen.rectangle((x - 45, 48, x + 45, 100), fill=colour)
    return colour, (x - 44, 52, x + 44, 96)


def parcel(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A box of cardboard with tape and a label."""
    _split(pen, pick, (200, 205, 210), (140, 135, 130), 84, 104)
    x = _middle(pick, side, 78)
    pen.rectangle((x - 78, 20, x + 78, 120), fill=shade((190, 150, 100), pick.uniform(0.9, 1.05)))
    pen.rectangle((x - 78, 20, x + 78, 28), fill=(210, 175, 125))
    pen.rectangle((x - 9, 20, x + 9, 120), fill=(215, 195, 155))
    top = pick.randint(42, 66)
    pen.rectangle((x - 64, top, x + 64, top + 36), fill=colour, outline=(60, 50, 40))
    return colour, (x - 62, top, x + 62, top + 36)


def market_stall(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A striped roof on two poles, boxes with round fruit, and a board in front."""
    _split(pen, pick, SKY, (150, 145, 135), 96, 108)
    for i, left in enumerate(range(14, 242, 19)):
        pen.polygon(
            [(left + 6, 4), (left + 20, 4), (left + 19, 30), (left, 30)], fill=colour if i % 2 else (246, 244, 238)
        )
    for x in (20, 234):
        pen.rectangle((x - 2, 28, x + 2, HEIGHT), fill=(110, 90, 70))
    pen.rectangle((24, 62, 232, 82), fill=shade(WOOD, 0.85))
    for x in range(30, 226, 12):
        fruit = pick.choice(((200, 55, 50), (225, 150, 50), (120, 160, 70)))
        pen.ellipse((x, 50 + pick.randint(0, 4), x + 11, 61 + pick.randint(0, 4)), fill=fruit)
    board = pick.choice(((60, 62, 60), (236, 230, 215)))
    x = (86, 128, 170)[side] + pick.randint(-6, 6)
    pen.rectangle((x - 60, 84, x + 60, 120), fill=board)
    return board, (x - 60, 84, x + 60, 120)


def door(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A door with a knob and a plate."""
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=shade((200, 192, 180), pick.uniform(0.85, 1.05)))
    x = _middle(pick, side, 56)
    pen.rectangle((x - 56, 4, x + 56, HEIGHT), fill=shade(colour, 0.7))
    pen.rectangle((x - 51, 9, x + 51, HEIGHT), fill=colour)
    pen.rectangle((x - 40, 78, x + 40, 122), outline=shade(colour, 0.75), width=2)
    pen.ellipse((x + 38, 66, x + 46, 74), fill=(215, 190, 110))
    plate, top = pick.choice(((235, 232, 222), (60, 60, 64))), pick.randint(22, 32)
    pen.rectangle((x - 46, top, x + 46, top + 30), fill=plate)
    return plate, (x - 45, top, x + 45, top + 30)


def book(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A cover with two lines, on a table with grain."""
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=WOOD)
    for y in range(6, HEIGHT, 13):
        pen.line((0, y, WIDTH, y + pick.randint(-5, 5)), fill=shade(WOOD, 0.88), width=1)
    x = _middle(pick, side, 58)
    pen.rectangle((x - 50, 10, x + 58, 124), fill=(240, 236, 225))
    pen.rectangle((x - 56, 6, x + 54, 120), fill=colour)
    pen.rectangle((x - 56, 6, x - 48, 120), fill=shade(colour, 0.75))
    line, top = shade(colour, 1.35), pick.randint(26, 50)
    for y in (top - 6, top + 38):
        pen.line((x - 40, y, x + 48, y), fill=line, width=2)
    return colour, (x - 46, top, x + 54, top + 32)


def street_plate(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """An enamel plate on bricks."""
    _bricks(pen, pick, shade(BRICK, pick.uniform(0.85, 1.1)))
    x, y = _middle(pick, side, 72), pick.uniform(34, 92)
    pen.rounded_rectangle((x - 72, y - 21, x + 72, y + 21), 4, fill=(242, 242, 238))
    pen.rounded_rectangle((x - 69, y - 18, x + 69, y + 18), 3, fill=colour)
    return colour, (x - 68, y - 17, x + 68, y + 17)


def poster(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A sheet with a circle and bars, on a wall."""
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=shade((150, 155, 165), pick.uniform(0.85, 1.1)))
    x = _middle(pick, side, 60)
    pen.rectangle((x - 60, 4, x + 60, 124), fill=colour)
    accent = pick.choice(((200, 60, 70), (60, 110, 170), (240, 215, 120)))
    pen.ellipse((x - 26, 12, x + 26, 64), fill=accent)
    for i in range(3):
        pen.rectangle((x - 40, 108 + 5 * i, x + pick.randint(0, 40), 110 + 5 * i), fill=shade(accent, 0.9))
    return colour, (x - 58, 68, x + 58, 104)


def building(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """Rows of windows, a sign and an entrance."""
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=SKY)
    x = (104, 128, 152)[side] + pick.randint(-5, 5)
    pen.rectangle((x - 96, 0, x + 96, HEIGHT), fill=shade((195, 180, 160), pick.uniform(0.85, 1.08)))
    for y in (6, 32):
        for left in range(int(x) - 86, int(x) + 80, 26):
            pen.rectangle((left, y, left + 15, y + 18), fill=(85, 105, 125))
    pen.rectangle((x - 70, 58, x + 70, 92), fill=colour)
    pen.rectangle((x - 20, 96, x + 20, HEIGHT), fill=(95, 75, 60))
    return colour, (x - 70, 58, x + 70, 92)


def wall(pen: Any, pick: random.Random, colour: Colour, side: int) -> tuple[Colour, Room]:
    """A bare wall."""
    ground = shade(colour, pick.uniform(0.85, 1.0))
    pen.rectangle((0, 0, WIDTH, HEIGHT), fill=ground)
    for _ in range(12):
        x, y = pick.randrange(WIDTH), pick.randrange(HEIGHT)
        pen.line((x, y, x + pick.randint(-14, 14), y + pick.randint(4, 18)), fill=shade(ground, 0.93))
    x, y = _middle(pick, side, 64), pick.uniform(32, 96)
    return ground, (x - 64, y - 17, x + 64, y + 17)


KINDS = (
    *(road_sign, shop_front, bus, bottle, parcel, market_stall),
    *(door, book, street_plate, poster, building, wall),
)
PAINTERS: dict[str, Painter] = {painter.__name__.replace("_", " "): painter for painter in KINDS}
