"""Words of titles: some nouns for each category, and adjectives for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from feed.record import CATEGORIES, word_code

NOUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "cars": ("sedan", "hatchback", "wagon", "pickup", "coupe", "minivan"),
    "car_parts": ("tyres", "bumper", "gearbox", "headlight", "alternator", "rims"),
    "motorcycles": ("scooter", "motorcycle", "moped", "sidecar", "helmet", "quadbike"),
    "flats": ("studio", "apartment", "loft", "penthouse", "flatshare", "duplex"),
    "houses": ("cottage", "townhouse", "farmhouse", "bungalow", "plot", "cabin"),
    "garages": ("garage", "carport", "parking", "storage", "shed", "workshop"),
    "jobs": ("driver", "cook", "courier", "welder", "cashier", "developer"),
    "services": ("repair", "cleaning", "removal", "lessons", "plumbing", "catering"),
    "phones": ("smartphone", "phone", "charger", "earphones", "smartwatch", "tablet"),
    "laptops": ("laptop", "notebook", "keyboard", "monitor", "printer", "router"),
    "consoles": ("console", "gamepad", "joystick", "cartridge", "headset", "arcade"),
    "audio": ("speaker", "amplifier", "turntable", "soundbar", "subwoofer", "receiver"),
    "cameras": ("camera", "lens", "tripod", "flash", "drone", "projector"),
    "furniture": ("sofa", "table", "wardrobe", "armchair", "bookcase", "bed"),
    "kitchen": ("fridge", "oven", "kettle", "blender", "dishwasher", "toaster"),
    "garden": ("mower", "greenhouse", "seedlings", "barbecue", "hammock", "trimmer"),
    "clothes": ("jacket", "dress", "jeans", "sweater", "coat", "shirt"),
    "shoes": ("sneakers", "boots", "sandals", "heels", "slippers", "loafers"),
    "children": ("pram", "cot", "toys", "highchair", "sledge", "playpen"),
    "bicycles": ("bicycle", "tandem", "frame", "saddle", "pedals", "tricycle"),
    "sport": ("skis", "dumbbells", "treadmill", "snowboard", "racket", "kayak"),
    "books": ("novel", "textbook", "comics", "encyclopedia", "atlas", "magazine"),
    "music": ("guitar", "piano", "violin", "drums", "accordion", "saxophone"),
    "pets": ("kitten", "puppy", "aquarium", "parrot", "hamster", "terrarium"),
}
ADJECTIVES: Final = (
    "new", "used", "red", "blue", "black", "white", "cheap", "urgent", "original", "compact", "large", "small", "light",
    "sturdy", "vintage", "modern", "quiet", "fast", "wooden", "leather", "complete", "boxed", "tested", "rare",
)  # fmt: skip
# Every word once; titles are kept as numbers into it while the world is made.
WORDS: Final = (*ADJECTIVES, *(noun for category in CATEGORIES for noun in NOUNS[category]))
CODES: Final = tuple(word_code(word) for word in WORDS)
BY_CODE: Final[Mapping[int, str]] = dict(zip(CODES, WORDS, strict=True))


def first_noun(category: int) -> int:
    """Where in WORDS the nouns of a category begin."""
    return len(ADJECTIVES) + sum(len(NOUNS[name]) for name in CATEGORIES[:category])
