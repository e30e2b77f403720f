"""Words and templates: of the generated haystack, of facts, and of their values."""

from __future__ import annotations

ONSETS = "b br c d dr f g gr h k l m n p r s st t th tr v w y z".split()
VOWELS = ("a", "a", "e", "e", "i", "o", "o", "u", "ai", "ea")
CODAS = ("", "l", "n", "r", "s", "m", "nd", "rt", "lk", "th", "sh")
ENDINGS = ("ton", "by", "wick", "ford", "mere", "stead", "holm", "dale", "port", "field", "gate")

ROLES = """baker carpenter teacher sailor gardener clerk doctor weaver miller painter farmer
judge cook driver librarian mason fisherman tailor surveyor musician potter shepherd porter
chemist innkeeper glazier saddler printer nurse ferryman locksmith beekeeper""".split()
ADJECTIVES = """old quiet narrow bright heavy crooked gentle wooden early broad rusty pale
careful muddy cheerful distant hollow plain sudden familiar stubborn warm faded steep
patient polished empty curious grey tidy modest restless""".split()
THINGS = """ladder lantern barrel letter bridge basket cart kettle fence window drum
table rope wheel mirror bench saddle bucket map clock chair blanket ledger hammer oven
shelf boat whistle curtain trunk harness loom""".split()
PLURALS = """apples boxes coats tools stones candles sheep chairs bottles ribbons planks
books goats shutters plates lamps nails crates onions geese tiles buttons carpets pots
pears reeds feathers spoons sacks hinges""".split()
VERBS = """repaired carried painted measured borrowed moved cleaned sold found lifted
examined wrapped forgot described admired counted stored returned sketched weighed
tied guarded emptied raised covered traded fetched sorted polished lent""".split()
PLACES = """harbour market orchard mill chapel quarry station meadow workshop courtyard
cellar bakery stable tower garden dock valley kitchen library schoolhouse ferry inn
granary forge warehouse lighthouse square pond attic""".split()
TIMES = """before breakfast|late in the evening|on market day|during the storm|after the harvest
in early spring|at the end of the week|while it was still dark|for most of the morning
on the first warm day|just after the bells|in the middle of winter|when the tide was low
on a windy afternoon|shortly before noon|without any hurry|as the snow began to melt
during the long drought|once the guests had left|on the way home""".replace("\n", "|").split("|")
WEATHER = """fog rain wind frost sunlight dust smoke snow mist thunder""".split()
FEELINGS = """pleased worried surprised tired grateful doubtful amused proud nervous calm""".split()
REASONS = """nobody else had the time|the road was closed|the price had fallen again
a neighbour had asked for it|the roof was leaking|there was little else to do
the old one had broken|the river was rising|winter was near|it had always been done that way
the children wanted to help|the council had agreed|a stranger offered to pay|the bread had burned
no one could remember why|the key turned only halfway""".replace("\n", "|").split("|")

WORD_LISTS = (ROLES, ADJECTIVES, THINGS, PLURALS, VERBS, PLACES, WEATHER, FEELINGS)
"""Words that stand in the same places of sentences, list by list."""

TEMPLATES = (
    "{name} the {role} {verb} the {adj} {thing} {time}.",
    "The {role} of {town} {verb} a {thing} and two {adj} {plural} {time}.",
    "{Time}, {name} and {name2} walked from {town} to the {adj} {place}.",
    "Nobody in {town} noticed that the {thing} near the {place} was missing.",
    "There was {weather} over the {place}, and the {role} felt {feeling}.",
    "The {adj} {place} at {town} was known for its {plural} and its {plural2}.",
    "{name} {verb} the {plural} because {reason}.",
    "A {adj} {role} from {town} asked whether the {thing} could be mended.",
    "{Time}, the {weather} reached {town} and the {place} was closed.",
    "When {name} came back to the {place}, the {adj} {thing} stood by the door.",
    "The {role} told {name} that the {plural} belonged to the {place}.",
    "It took {name} all day to bring the {plural} to the {place} in {town}.",
    "{name} wrote a long letter to {name2} about the {adj} {plural}.",
    "Between the {place} and the {place2} lay a {adj} path that few people used.",
    "The {thing} was {adj}, but the {role} {verb} it all the same.",
    "Since {reason}, {name} {verb} the {thing} {time}.",
    "In {town} they say that {weather} brings a {adj} {role} to the {place}.",
    "{name} was {feeling} when the {role} {verb} the last of the {plural}.",
    "Two of the {plural} were {adj}, so {name2} took them to the {place}.",
    "The people of {town} met at the {place} {time}, although {reason}.",
    "Without a word, {name} put the {thing} behind the {adj} {place}.",
    "The {adj} {thing} had once belonged to a {role} called {name}.",
    "{name2} said that {town} looked {adj} in the {weather}.",
    "Every {role} in {town} had heard of the {thing} in the {adj} {place}.",
    "They left {town} {time}, with the {plural} on a {adj} cart.",
    "{name} could not say why the {role} {verb} the {plural2} {time}.",
    "Around the {place} grew {adj} bushes, and the {weather} made them shine.",
    "The {role} smiled, {verb} the {thing}, and went on towards {town}.",
    "From the {place} one could see the {adj} roofs of {town} through the {weather}.",
    "{Time}, a {role} named {name} opened the {place} to visitors.",
)

SHORT_TEMPLATES = (
    "It rained.",
    "Snow fell.",
    "The bells rang.",
    "Nobody came at all.",
    "The {place} was {adj}.",
    "The {role} went home.",
    "They sold the {plural}.",
    "The {thing} was still there.",
    "There was {weather} all day.",
    "The {adj} {place} stayed empty.",
    "A {role} {verb} the {plural}.",
    "{Time}, the {role} came back.",
    "The {role} {verb} a {adj} {thing}.",
    "It was {adj} in the old {place}.",
    "The {role} was {feeling} about the {plural}.",
)
"""Only to fill what is left of a prompt, when it is less than any sentence above takes."""

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
