"""Words and templates: of the generated haystack, of facts and their values, and kinds of facts.

A document takes each kind of fact once before any comes again: two facts of a kind are what a model
mixes up (`benchmarks/needles.py`). A value is known by its form, or by the kind of word it is, to
be of its kind. Neighbouring digits differ: what could be said by stuttering would not have been
read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ropewalk.short import short

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

_LETTERS = "ABCDEFGHJKLMNPRSTVWXYZ"
"""Without those that are read as digits."""


def _digits(random: Random, count: int) -> str:
    value = str(random.randrange(1, 10))
    while len(value) < count:
        digit = str(random.randrange(10))
        value += digit if digit != value[-1] else ""
    return value


def _phone(random: Random) -> str:
    return f"{_digits(random, 3)}-{_digits(random, 4)}"


def _room(random: Random) -> str:
    return f"{random.choice(_LETTERS)}{_digits(random, 2)}"


def _year(random: Random) -> str:
    return f"1{random.choice('5678')}{_digits(random, 2)}"


def _price(random: Random) -> str:
    return f"${_digits(random, 2)}.{random.choice('123456789')}5"


def _time(random: Random) -> str:
    return f"{random.randrange(1, 13)}:{random.randrange(1, 60):02d}"


def _day(random: Random) -> str:
    return f"{random.choice(WORDS['month'].split())} {random.randrange(2, 29)}"


def _plate(random: Random) -> str:
    letters = random.sample(_LETTERS, 4)
    return f"{letters[0]}{letters[1]}-{_digits(random, 3)}-{letters[2]}{letters[3]}"


def _flight(random: Random) -> str:
    return f"{''.join(random.sample(_LETTERS, 2))}{_digits(random, 4)}"


def _email(random: Random) -> str:
    return f"{random.choice(_LETTERS).lower()}{_digits(random, 2)}@post.org"


def _of(unit: str, digits: int) -> Callable[[Random], str]:
    return lambda random: f"{_digits(random, digits)} {unit}"


def _one_of(name: str) -> Callable[[Random], str]:
    words = WORDS[name].split()
    return lambda random: random.choice(words)


@short
@dataclass(frozen=True, slots=True)
class FactKind:
    """`{key}` stands in the texts; `opening` is continued by a space and the value.

    `noun` names what is asked for. `said` is how the fact stands in the haystack.
    """

    noun: str
    asking: str
    opening: str
    draw: Callable[[Random], str]
    said: str = "{fact}"


def _kind(noun: str, asking: str, opening: str, draw: str | Callable[[Random], str]) -> FactKind:
    return FactKind(noun, asking, opening, _one_of(draw) if isinstance(draw, str) else draw)


VALUE_DIGITS = 5
"""Of a pass key."""

PASS_KEY = FactKind(
    "pass key",
    "What is the pass key of {key}?",
    "The pass key of {key} is",
    lambda random: _digits(random, VALUE_DIGITS),
    "{fact} Remember it. {fact}",
)
"""What is asked by itself. It is said twice in the same words, which a small model far within its
length finds more surely: what is missed should be missed for the distance, not for the wording."""


# fmt: off
KINDS: tuple[FactKind, ...] = (
    _kind("pass key", "What is the pass key of {key}?",
          "The pass key of {key} is", PASS_KEY.draw),
    _kind("colour", "What colour is the front door of the {key} hotel?",
          "The front door of the {key} hotel is painted", "colour"),
    _kind("phone number", "Which number must one dial to call {key}?",
          "To call {key}, dial the number", _phone),
    _kind("pet", "What does Professor {key} keep for a pet?",
          "For a pet, Professor {key} keeps a", "pet"),
    _kind("year", "In which year was the ship {key} built?",
          "The ship {key} was built in the year", _year),
    _kind("instrument", "Which instrument does Miss {key} play in the orchestra?",
          "In the orchestra, Miss {key} plays the", "instrument"),
    _kind("price", "How much does a ticket to {key} island cost?",
          "A ticket to {key} island costs", _price),
    _kind("dish", "What is the restaurant {key} famous for?",
          "The restaurant {key} is famous for its", "dish"),
    _kind("departure", "At what time does the night train to {key} leave?",
          "The night train to {key} leaves at", _time),
    _kind("sport", "Which sport does the {key} club practise?",
          "The sport of the {key} club is", "sport"),
    _kind("birthday", "When is the birthday of King {key}?", "The birthday of King {key} is", _day),
    _kind("fruit", "Which fruit grows on the {key} plantation?",
          "The {key} plantation grows nothing but", "fruit"),
    _kind("licence plate", "Which licence plate does the taxi driver {key} have?",
          "The taxi driver {key} has the licence plate", _plate),
    _kind("language", "Which language does the nurse {key} speak at home?",
          "At home, the nurse {key} speaks", "language"),
    _kind("weight", "How much does the elephant {key} weigh?",
          "The elephant {key} weighs", _of("pounds", 3)),
    _kind("metal", "Which metal is dug up in the {key} mine?", "The {key} mine digs up", "metal"),
    _kind("hall", "In which hall does the {key} conference take place?",
          "The {key} conference takes place in hall", _room),
    _kind("drink", "What does Captain {key} always order to drink?",
          "To drink, Captain {key} always orders", "drink"),
    _kind("flight", "Which number has the flight to {key} airport?",
          "The flight to {key} airport has the number", _flight),
    _kind("flowers", "Which flowers did Lady {key} plant on the balcony?",
          "On the balcony, Lady {key} planted", "flower"),
    _kind("temperature", "How warm is the water of Lake {key}?",
          "The water of Lake {key} has a temperature of", _of("degrees", 2)),
    _kind("vehicle", "In what does Detective {key} travel?",
          "Detective {key} travels in a", "vehicle"),
    _kind("height", "How high is Mount {key}?", "The height of Mount {key} is", _of("feet", 4)),
    _kind("weekday", "On which day of the week is the museum of {key} closed?",
          "The museum of {key} is closed on", "weekday"),
    _kind("address", "Which e-mail address does the office of {key} use?",
          "The office of {key} uses the e-mail address", _email),
    _kind("country", "In which country was the singer {key} born?",
          "The singer {key} was born in", "country"),
    _kind("age", "How old is grandmother {key}?",
          "Grandmother {key} has reached the age of", _of("years", 2)),
    _kind("school subject", "Which school subject does Mr {key} teach?",
          "At school, Mr {key} teaches", "subject"),
    _kind("distance", "How far away is the planet {key}?",
          "The distance to the planet {key} is", _of("million miles", 3)),
    _kind("fabric", "What are the curtains in the {key} theatre made of?",
          "The curtains in the {key} theatre are made of", "fabric"),
    _kind("speed", "How fast does the racing horse {key} run?",
          "The racing horse {key} runs at a speed of", _of("miles per hour", 2)),
    _kind("illness", "From which illness did Queen {key} suffer?",
          "Queen {key} suffered from", "illness"),
    _kind("share", "What share of the votes did Senator {key} win?",
          "Of all votes, Senator {key} won", _of("percent", 2)),
    _kind("shape", "What shape has the {key} monument?",
          "The {key} monument has the shape of a", "shape"),
    _kind("length", "How long is the river {key}?",
          "The river {key} has a length of", _of("kilometres", 3)),
    _kind("dance", "Which dance did Prince {key} learn?",
          "Prince {key} learned to dance the", "dance"),
    _kind("visitors", "How many visitors did the zoo of {key} count?",
          "The zoo of {key} counted", _of("visitors", 5)),
    _kind("insect", "Which insect is on the {key} stamp?", "The {key} stamp shows a", "insect"),
    _kind("wage", "What does the cleaner {key} earn?",
          "The cleaner {key} earns", _of("dollars a month", 4)),
    _kind("spice", "What is the secret spice of chef {key}?",
          "The secret spice of chef {key} is", "spice"),
    _kind("battery", "How long does the battery of the robot {key} last?",
          "The battery of the robot {key} lasts", _of("minutes", 2)),
    _kind("gem", "Which gem is set in the {key} crown?",
          "The gem in the {key} crown is a beautiful", "gem"),
    _kind("injury", "Which part of the body did the footballer {key} injure?",
          "The footballer {key} had an injury of the", "body"),
    _kind("hobby", "What is the hobby of Judge {key}?", "The hobby of Judge {key} is", "art"),
    _kind("game", "Which game did the twins {key} win?",
          "The twins {key} won the championship in", "game"),
    _kind("tree", "Under which tree is the poet {key} buried?",
          "The poet {key} is buried under the big", "tree"),
    _kind("hiding place", "Where did the thief {key} hide the money?",
          "The thief {key} hid the money in the", "room"),
    _kind("profession", "What does young {key} want to become?",
          "When grown up, young {key} wants to become a", "job"),
    _kind("soup", "Which soup is cooked in the {key} canteen?",
          "The soup of the day in the {key} canteen is", "soup"),
    _kind("fish", "Which fish did uncle {key} catch?",
          "With bare hands, uncle {key} caught a", "fish"),
    _kind("research", "What does the {key} institute study?",
          "The {key} institute studies", "science"),
    _kind("present", "What did cousin {key} get for a wedding present?",
          "For a wedding present, cousin {key} got a", "gift"),
)
# fmt: on
"""In the order in which they take turns: numbers and words by turns as far as they go."""
