"""Word lists for the simulated shop and its posts: people, goods, and cities with coordinates."""

from __future__ import annotations

FIRST = (  # noqa: SIM905  # a list of quoted names is harder to read
    "Ada Alma Anouk Björn Carmen Chidi Dana Eero Elif Emeka Eve Farah Grace Hedy Igor Ines Jonas Kaja Lena Linus Mads "
    "Mei Milan Nadia Noor Olga Omar Paolo Priya Rosa Sami Sofia Tariq Uma Vera Wim Yara Zoe"
).split()
LAST = (  # noqa: SIM905  # as above
    "Abel Berg Costa Dahl Eriksen Farkas Garcia Haas Ibrahim Jansen Keller Lund Moreau Nagy Okafor Petrov Quist Rossi "
    "Silva Tanaka Ueda Varga Weiss Xu Yilmaz Zimmer"
).split()

# Degrees east and north.
CITIES: dict[str, tuple[float, float]] = {
    "Amsterdam": (4.90, 52.37),
    "Athens": (23.73, 37.98),
    "Barcelona": (2.17, 41.39),
    "Berlin": (13.40, 52.52),
    "Bucharest": (26.10, 44.43),
    "Budapest": (19.04, 47.50),
    "Dublin": (-6.26, 53.35),
    "Edinburgh": (-3.19, 55.95),
    "Helsinki": (24.94, 60.17),
    "Istanbul": (28.98, 41.01),
    "Kyiv": (30.52, 50.45),
    "Lisbon": (-9.14, 38.72),
    "London": (-0.13, 51.51),
    "Lyon": (4.84, 45.76),
    "Madrid": (-3.70, 40.42),
    "Milan": (9.19, 45.46),
    "Oslo": (10.75, 59.91),
    "Palermo": (13.36, 38.12),
    "Paris": (2.35, 48.86),
    "Prague": (14.44, 50.08),
    "Reykjavik": (-21.94, 64.15),
    "Riga": (24.11, 56.95),
    "Rome": (12.50, 41.90),
    "Stockholm": (18.07, 59.33),
    "Tromsø": (18.96, 69.65),
    "Vienna": (16.37, 48.21),
    "Warsaw": (21.01, 52.23),
    "Zagreb": (15.98, 45.81),
}

# Goods and their prices in cents.
ITEMS = (
    ("Bicycle bell", 1450),
    ("Blue notebook", 690),
    ("Bread knife", 3990),
    ("Camping lamp", 2790),
    ("Chess set", 4900),
    ("Espresso cup", 850),
    ("Field glasses", 8900),
    ("Garden gloves", 1290),
    ("Linen apron", 3400),
    ("Rain jacket", 9900),
    ("Soldering iron", 3650),
    ("Tea kettle", 4590),
    ("Wool socks", 1590),
)

SUBJECTS = (
    "A bakery that opens at five",
    "The quiet end of the harbour",
    "Where to mend a bicycle",
    "Second-hand books by the station",
    "A market under the bridge",
    "Swimming before work",
    "The library with the green lamps",
    "Coffee without music",
    "A workshop for old radios",
    "Night trains and how to sleep in them",
    "The garden on the roof",
    "Soup for a cold evening",
)
THOUGHTS = (
    "Go early, before the queue reaches the corner.",
    "The owner repairs anything that has a screw in it.",
    "Bring cash; the card machine has been broken since spring.",
    "From the upper window one sees the river and two trains.",
    "It smells of rye bread and printing ink.",
    "On Sundays a choir rehearses next door.",
    "The tram stops in front of it until midnight.",
    "Ask for the map behind the counter.",
    "In winter there is soup, in summer there are plums.",
    "You may stay as long as you like, and buy nothing.",
)
