"""The subjects of tables from many fields of life: what a row is, and what is measured."""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    """A quantity that a column of numbers measures.

    Attributes:
      name: as in a header. kind: one of `figures.KINDS`.
      synonyms: other names. unit: behind its numbers ("km"), or a sign such as "$" before them.
      countable: questions ask "how many …" of it.
      additive: its sum over rows has a meaning.
    """

    name: str
    kind: str
    synonyms: tuple[str, ...] = ()
    unit: str = ""
    countable: bool = False
    additive: bool = True


class Field(NamedTuple):
    """A subject of tables.

    Attributes:
      singular, plural: the noun for a row. names: of rows; empty if they are invented.
      measures: columns of numbers. attributes: columns of texts, (name, possible texts).
      yearly: whether a table may show the measures of one subject over years, as in a company's report.
    """

    singular: str
    plural: str
    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    yearly: bool = False


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


COUNTRIES = _split_words(
    "Norway, Spain, Brazil, Kenya, Japan, Canada, Peru, Ghana, Italy, Egypt, Chile, India, France, Poland, "
    "Mexico, Turkey, Sweden, Vietnam, Austria, Morocco, Greece, Ireland, Portugal, Denmark"
)
CITIES = _split_words(
    "Oslo, Lima, Nairobi, Kyoto, Toronto, Porto, Lyon, Leeds, Graz, Bergen, Quito, Dakar, Hanoi, Izmir, Krakow, "
    "Bremen, Seville, Ottawa, Cork, Malmo, Tampere, Basel, Ghent, Turin"
)
MONTHS = _split_words(
    "January, February, March, April, May, June, July, August, September, October, November, December"
)
DAYS = _split_words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
PEOPLE = _split_words(
    "Anna, Bilal, Carla, David, Elena, Farid, Grace, Hugo, Ines, Jonas, Keiko, Liam, Maria, Noor, Oscar, Priya, "
    "Quentin, Rosa, Samir, Tara, Ulla, Victor, Wendy, Yusuf"
)
M = Measure

FIELDS: tuple[Field, ...] = (
    Field(
        "company",
        "companies",
        (),
        (
            M("revenue", "money", ("sales", "turnover"), "$"),
            M("cost", "money", ("costs", "expenses"), "$"),
            M("net income", "signed", ("net profit", "net earnings"), "$"),
            M("operating profit", "signed", ("operating income",), "$"),
            M("gross profit", "money", (), "$"),
            M("cost of sales", "money", ("cost of goods sold",), "$"),
            M("marketing expenses", "money", ("marketing costs", "spending on marketing"), "$"),
            M("research and development", "money", ("R&D",), "$"),
            M("interest expense", "money", ("interest paid",), "$"),
            M("income taxes", "money", ("taxes", "tax expense"), "$"),
            M("total assets", "money", ("assets",), "$"),
            M("total liabilities", "money", ("liabilities", "debt"), "$"),
            M("inventories", "money", ("stock held",), "$"),
            M("cash flow", "signed", (), "$"),
            M("employees", "big", ("staff", "headcount"), "", True),
            M("gross margin", "percent", ("margin",), "%", additive=False),
        ),
        (("country", COUNTRIES), ("sector", _split_words("retail, energy, software, transport, banking, chemicals"))),
        True,
    ),
    Field(
        "department",
        "departments",
        _split_words(
            "Sales, Finance, Legal, Marketing, Logistics, Support, Research, Purchasing, Security, Training"
        ),
        (
            M("budget", "money", ("planned spending",), "$"),
            M("spending", "money", ("expenditure", "actual spending"), "$"),
            M("salaries", "money", ("wages",), "$"),
            M("travel costs", "money", ("travel expenses",), "$"),
            M("rent", "money", (), "$"),
            M("staff", "count", ("employees",), "", True),
            M("open positions", "count", ("vacancies",), "", True),
        ),
        (("head", PEOPLE),),
        True,
    ),
    Field(
        "club",
        "clubs",
        (),
        (
            M("points", "score", (), "", True),
            M("wins", "count", ("games won", "victories"), "", True),
            M("losses", "count", ("games lost", "defeats"), "", True),
            M("draws", "count", (), "", True),
            M("goals", "score", ("goals scored",), "", True),
            M("games played", "count", ("matches", "games"), "", True),
            M("attendance", "big", ("spectators",), "", False),
            M("titles", "few", ("championships",), "", True),
        ),
        (("city", CITIES), ("coach", PEOPLE)),
    ),
    Field(
        "player",
        "players",
        PEOPLE,
        (
            M("goals", "count", ("goals scored",), "", True),
            M("assists", "count", (), "", True),
            M("minutes", "big", ("minutes played", "playing time"), "min"),
            M("games", "count", ("matches", "appearances"), "", True),
            M("yellow cards", "few", ("bookings",), "", True),
            M("points per game", "tenth", (), "", additive=False),
            M("age", "age", (), "", additive=False),
        ),
        (("team", _split_words("Reds, Blues, Lions, Hawks, Tigers, Sharks")), ("country", COUNTRIES)),
    ),
    Field(
        "athlete",
        "athletes",
        PEOPLE,
        (
            M("time", "tenth", ("finishing time",), "s", additive=False),
            M("distance", "tenth", ("throw",), "m", additive=False),
            M("gold medals", "few", ("golds",), "", True),
            M("silver medals", "few", ("silvers",), "", True),
            M("bronze medals", "few", (), "", True),
            M("score", "tenth", ("mark",), "", additive=False),
        ),
        (("country", COUNTRIES),),
    ),
    Field(
        "product",
        "products",
        _split_words(
            "lamp, chair, desk, kettle, bicycle, tent, backpack, umbrella, notebook, pencil, candle, mirror, "
            "clock, hammer, drill, rope, bucket, blanket, pillow, radio"
        ),
        (
            M("price", "price", ("unit price", "price per item"), "$", additive=False),
            M("stock", "score", ("units in stock", "quantity in stock"), ""),
            M("units sold", "big", ("items sold", "quantity sold"), "", True),
            M("sales", "money", ("revenue", "takings"), "$"),
            M("weight", "tenth", (), "kg"),
            M("discount", "percent", ("reduction",), "%", additive=False),
            M("returns", "count", ("items returned",), "", True),
            M("rating", "rating", ("customer rating",), "", additive=False),
        ),
        (("colour", _split_words("red, blue, green, black, white, yellow")), ("supplier", CITIES)),
    ),
    Field(
        "pupil",
        "pupils",
        PEOPLE,
        (
            M("maths", "mark", ("mathematics", "maths score"), "", additive=False),
            M("history", "mark", ("history score",), "", additive=False),
            M("science", "mark", ("science score",), "", additive=False),
            M("absences", "few", ("days absent", "days missed"), "", True),
            M("books read", "count", (), "", True),
            M("age", "age", (), "", additive=False),
        ),
        (("class", _split_words("4A, 4B, 5A, 5B, 6C")),),
    ),
    Field(
        "school",
        "schools",
        (),
        (
            M("pupils", "big", ("students", "enrolment"), "", True),
            M("teachers", "score", ("teaching staff",), "", True),
            M("classrooms", "count", ("rooms",), "", True),
            M("graduates", "score", ("leavers",), "", True),
            M("pass rate", "percent", (), "%", additive=False),
            M("budget", "money", (), "€"),
        ),
        (("town", CITIES), ("type", _split_words("primary, secondary, vocational"))),
        True,
    ),
    Field(
        "month",
        "months",
        MONTHS,
        (
            M("rainfall", "tenth", ("rain", "precipitation"), "mm"),
            M("temperature", "temperature", ("mean temperature",), "°C", additive=False),
            M("sunshine hours", "score", ("hours of sunshine", "sun hours"), "", True),
            M("wind speed", "tenth", (), "km/h", additive=False),
            M("visitors", "big", ("guests",), "", True),
            M("orders", "score", (), "", True),
            M("electricity use", "score", ("power use", "consumption"), "kWh"),
        ),
    ),
    Field(
        "city",
        "cities",
        CITIES,
        (
            M("population", "huge", ("inhabitants", "number of residents"), ""),
            M("area", "tenth", ("size",), "km²"),
            M("rainfall", "score", ("precipitation",), "mm", additive=False),
            M("high temperature", "temperature", ("maximum temperature",), "°C", additive=False),
            M("low temperature", "temperature", ("minimum temperature",), "°C", additive=False),
            M("museums", "count", (), "", True),
            M("parks", "count", (), "", True),
            M("average rent", "money", (), "€", additive=False),
            M("unemployment rate", "percent", ("unemployment",), "%", additive=False),
        ),
        (("country", COUNTRIES), ("river", _split_words("Tarn, Oder, Mira, Lune, Vale, Drina"))),
    ),
    Field(
        "country",
        "countries",
        COUNTRIES,
        (
            M("population", "huge", ("inhabitants",), ""),
            M("GDP", "money", ("gross domestic product", "output"), "$"),
            M("exports", "money", (), "$"),
            M("imports", "money", (), "$"),
            M("life expectancy", "tenth", (), "years", additive=False),
            M("births", "big", ("babies born",), "", True),
            M("forest area", "tenth", ("forest",), "km²"),
            M("inflation", "percent", ("inflation rate",), "%", additive=False),
            M("gold medals", "few", (), "", True),
            M("CO2 emissions", "tenth", ("emissions",), "t"),
        ),
        (("continent", _split_words("Africa, Asia, Europe, America, Oceania")), ("capital", CITIES)),
    ),
    Field(
        "source",
        "sources",
        _split_words("coal, gas, wind, solar, hydro, nuclear, biomass, oil, geothermal, tidal"),
        (
            M("capacity", "money", ("installed capacity",), "MW"),
            M("output", "tenth", ("generation", "electricity generated"), "TWh"),
            M("plants", "count", ("power stations",), "", True),
            M("emissions", "tenth", (), "Mt"),
            M("investment", "money", ("money invested",), "€"),
            M("share", "percent", ("share of supply",), "%", additive=False),
        ),
        (),
        True,
    ),
    Field(
        "party",
        "parties",
        _split_words("Reform, Unity, Green, Liberal, Labour, Centre, Progress, National, Farmers, Pirate"),
        (
            M("votes", "huge", ("votes received", "ballots"), "", True),
            M("seats", "score", ("seats won", "mandates"), "", True),
            M("vote share", "percent", ("share of votes",), "%", additive=False),
            M("candidates", "count", (), "", True),
            M("members", "big", ("party members",), "", True),
            M("donations", "money", (), "€"),
        ),
        (("leader", PEOPLE),),
    ),
    Field(
        "district",
        "districts",
        _split_words("North, South, East, West, Harbour, Hillside, Riverside, Old Town, Central, Lakeside"),
        (
            M("voters", "huge", ("registered voters",), "", True),
            M("turnout", "percent", (), "%", additive=False),
            M("votes cast", "huge", ("ballots cast",), "", True),
            M("polling stations", "count", (), "", True),
            M("households", "big", ("homes",), "", True),
            M("population", "huge", ("residents", "inhabitants"), ""),
        ),
    ),
    Field(
        "food",
        "foods",
        _split_words(
            "apple, bread, cheese, rice, lentils, salmon, yoghurt, oats, egg, almonds, potato, spinach, tofu, "
            "honey, beef, banana"
        ),
        (
            M("calories", "score", ("energy", "kilocalories"), "kcal"),
            M("protein", "tenth", ("protein content",), "g"),
            M("fat", "tenth", ("fat content",), "g"),
            M("sugar", "tenth", ("sugars",), "g"),
            M("fibre", "tenth", ("dietary fibre",), "g"),
            M("salt", "tenth", ("sodium",), "g"),
            M("price", "price", ("cost",), "€", additive=False),
        ),
        (("group", _split_words("fruit, dairy, grain, meat, vegetable")),),
    ),
    Field(
        "farm",
        "farms",
        (),
        (
            M("wheat", "money", ("wheat harvest",), "t"),
            M("maize", "money", ("corn",), "t"),
            M("milk", "money", ("milk yield",), "l"),
            M("cows", "score", ("cattle",), "", True),
            M("sheep", "score", (), "", True),
            M("land", "tenth", ("area",), "ha"),
            M("profit", "signed", ("earnings",), "€"),
        ),
        (("region", _split_words("north, south, east, west, coast")),),
        True,
    ),
    Field(
        "hotel",
        "hotels",
        (),
        (
            M("rooms", "score", ("beds",), "", True),
            M("guests", "big", ("visitors",), "", True),
            M("price per night", "price", ("room price", "nightly rate"), "$", additive=False),
            M("occupancy", "percent", ("occupancy rate",), "%", additive=False),
            M("stars", "few", (), "", additive=False),
            M("rating", "rating", ("guest rating",), "", additive=False),
        ),
        (("city", CITIES),),
    ),
    Field(
        "route",
        "routes",
        (),
        (
            M("distance", "tenth", ("length",), "km"),
            M("passengers", "big", ("riders", "travellers"), "", True),
            M("stops", "count", ("stations",), "", True),
            M("fare", "price", ("ticket price",), "€", additive=False),
            M("delays", "count", ("late arrivals",), "", True),
            M("travel time", "score", ("duration",), "min"),
        ),
        (("type", _split_words("bus, tram, train, ferry")),),
    ),
    Field(
        "book",
        "books",
        (),
        (
            M("pages", "score", ("page count",), "", True),
            M("copies sold", "big", ("sales",), "", True),
            M("price", "price", (), "£", additive=False),
            M("loans", "score", ("times borrowed",), "", True),
            M("rating", "rating", ("readers' rating",), "", additive=False),
        ),
        (("author", PEOPLE), ("language", _split_words("English, French, Arabic, Spanish, Hindi"))),
    ),
    Field(
        "employee",
        "employees",
        PEOPLE,
        (
            M("salary", "money", ("pay", "annual salary"), "$"),
            M("bonus", "money", (), "$"),
            M("hours", "count", ("hours worked",), "", True),
            M("overtime", "count", ("overtime hours",), "h"),
            M("vacation days", "count", ("days off", "holidays"), "", True),
            M("years of service", "few", ("seniority",), "", additive=False),
        ),
        (("department", _split_words("Sales, Finance, Legal, Support, Research")), ("city", CITIES)),
    ),
    Field(
        "day",
        "days",
        DAYS,
        (
            M("customers", "score", ("visitors", "shoppers"), "", True),
            M("takings", "money", ("sales", "income"), "$"),
            M("steps", "big", ("steps walked",), "", True),
            M("hours of sleep", "rating", ("sleep",), "h"),
            M("coffees sold", "count", ("coffees",), "", True),
            M("tickets sold", "score", ("tickets",), "", True),
        ),
    ),
    Field(
        "hospital",
        "hospitals",
        (),
        (
            M("beds", "score", (), "", True),
            M("patients", "big", ("admissions",), "", True),
            M("doctors", "score", ("physicians",), "", True),
            M("nurses", "score", ("nursing staff",), "", True),
            M("waiting time", "count", ("wait",), "min", additive=False),
            M("operations", "big", ("surgeries",), "", True),
        ),
        (("city", CITIES),),
        True,
    ),
    Field(
        "expense",
        "expenses",
        _split_words(
            "rent, food, transport, clothing, insurance, phone, heating, water, leisure, savings, repairs, books"
        ),
        (
            M("amount", "money", ("spending",), "$"),
            M("budget", "money", ("planned amount",), "$"),
            M("share", "percent", (), "%", additive=False),
        ),
    ),
    Field(
        "mountain",
        "mountains",
        (),
        (
            M("height", "big", ("elevation", "altitude"), "m", additive=False),
            M("climbers", "score", ("ascents",), "", True),
            M("first ascent", "year", ("first climbed",), "", additive=False),
            M("snow depth", "score", ("depth of snow",), "cm", additive=False),
        ),
        (("country", COUNTRIES), ("range", _split_words("Alps, Andes, Atlas, Tatra, Pindus"))),
    ),
    Field(
        "car",
        "cars",
        (),
        (
            M("price", "money", ("list price",), "$", additive=False),
            M("horsepower", "score", ("power",), "hp", additive=False),
            M("top speed", "score", ("maximum speed",), "km/h", additive=False),
            M("range", "score", ("driving range",), "km", additive=False),
            M("units sold", "big", ("sales", "cars sold"), "", True),
            M("seats", "few", (), "", True),
        ),
        (("fuel", _split_words("petrol, diesel, electric, hybrid")), ("country", COUNTRIES)),
    ),
)
