"""Words that facts are about, and words that are their values."""

from __future__ import annotations

WORDS = {
    "month": "January February March April June July August September October November",
    "colour": "blue green yellow white orange purple pink brown golden scarlet black",
    "pet": "parrot rabbit hamster turtle ferret canary lizard monkey falcon llama otter penguin",
    "instrument": "violin trumpet piano flute cello guitar clarinet accordion harp banjo tuba oboe",
    "dish": "pancakes spaghetti dumplings lasagna sushi tacos curry pizza kebabs noodles waffles",
    "fruit": "bananas cherries oranges mangoes lemons grapes peaches plums melons figs kiwis limes",
    "sport": "tennis golf hockey rugby boxing skiing archery basketball judo fencing volleyball",
    "language": "Spanish Arabic Russian Hindi Greek Turkish Korean Swedish Polish Latin Dutch Thai",
    "metal": "gold copper zinc nickel titanium platinum aluminium tungsten bronze cobalt uranium",
    "drink": "coffee lemonade whisky cocoa wine cider champagne vodka cola beer milk tequila",
    "flower": "tulips orchids lilies daisies sunflowers violets daffodils carnations poppies",
    "vehicle": "motorcycle helicopter submarine tractor bicycle rickshaw limousine tram canoe",
    "weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "country": "Norway Mexico Japan Canada Portugal Ethiopia Finland Nigeria Vietnam Chile Nepal",
    "subject": "algebra chemistry geography history physics astronomy biology economics philosophy",
    "fabric": "silk cotton velvet linen denim leather nylon cashmere satin polyester flannel",
    "illness": "malaria measles pneumonia influenza asthma diabetes bronchitis cholera",
    "shape": "triangle hexagon pyramid sphere cube cylinder pentagon spiral oval octagon diamond",
    "dance": "tango waltz ballet polka salsa flamenco samba foxtrot rumba",
    "insect": "butterfly beetle mosquito dragonfly cricket wasp spider grasshopper cockroach",
    "spice": "cinnamon pepper ginger saffron vanilla turmeric paprika nutmeg cumin garlic mustard",
    "gem": "emerald sapphire amethyst topaz garnet opal turquoise amber jade agate",
    "body": "shoulder ankle knee elbow thumb wrist chin neck heel jaw",
    "art": "photography sculpture pottery embroidery calligraphy origami poetry knitting drawing",
    "game": "chess poker dominoes bingo checkers backgammon darts billiards solitaire roulette",
    "tree": "oak maple birch willow cedar poplar chestnut walnut ash elm",
    "room": "bathroom garage bedroom basement cloakroom hallway pantry nursery laundry greenhouse",
    "job": "astronaut dentist plumber lawyer pilot butcher magician surgeon barber soldier",
    "soup": "tomato mushroom pumpkin lentil chicken carrot potato spinach lobster cabbage",
    "fish": "salmon tuna trout herring shark carp eel sardine halibut mackerel",
    "science": "volcanoes dinosaurs glaciers comets bacteria earthquakes whales fossils lasers",
    "gift": "necklace umbrella camera telescope bracelet perfume wallet compass teapot skateboard",
}
"""By kind of word; none occurs in the generated haystack."""

SUBJECTS: tuple[str, ...] = tuple(
    """Adelaide Bermuda Columbus Dublin Egypt Florence Geneva Havana Iris Jupiter Kenya Lima
Madrid Nelson Oxford Panama Quincy Romeo Sahara Tokyo Uranus Vienna Wagner Xavier York Zurich
Amazon Bruno Chester Diana Everest Felix Gordon Hudson Isabel Jasmine Kyoto Lincoln Mozart
Naomi Orion Pearl Rosa Saturn Trinity Ursula Venus Winston Yvonne Zelda Apollo Brazil
Cairo Dakota Emma Franklin Gloria Hector Ivan Java Karl Louis Mercury Newton Olive Phoenix
Ruby Sofia Titan Utah Victor Walter Alaska Boston Crystal Denver Edison Frodo Grant Harvey
India Jordan Kansas Leo Milan Norman Oscar Prague Rex Stella Thor Verona Warsaw Atlas Berlin
Cleo Dexter Eden Fiji Ginger Hobart Igor Jonas Kelvin Luna Monaco Nina Otto Pablo Riga Scott
Tiger Umberto Vera Willow""".split()
)
"""Short well-known single words, so that a tokenizer takes one or two tokens for most."""
