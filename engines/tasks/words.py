"""The words that the tasks are made of, chosen so that the family's tokenizer holds each as a single token."""

NAMES = (
    "Ada Alan Amy Anna Ben Bob Cara Carl Cleo Dan Dora Eli Ella Emma Finn Fred Gina Hugo Ida Ivan Jack Jane Joe Kate "
    "Kim "
    "Leo Lily Lola Max Mia Nina Noah Olga Oscar Paul Pia Rita Rosa Sam Sara Ted Tina Tom Uma Vera Will Yara Zoe"
).split()

THINGS = (
    "boat dog cat bird ball kite tree house garden river cake apple book lamp drum hat shoe box bell train car bike "
    "horse cow duck "
    "fish frog bear mouse rabbit fox flower stone star moon cloud hill bridge door window table chair bed cup spoon "
    "bag coin key map "
    "pencil letter picture song game toy doll robot"
).split()

COUNTED = (
    "ball book coin cup flower key kite lamp letter map pencil picture shoe spoon stone toy hat drum bell apple".split()
)  # plural in -s
VERBS = (
    "clean draw drop find follow hear help hold know lift like love need paint see want".split()
)  # third person in -s
ADJECTIVES = (
    "big blue cold dark fast green happy little new old quiet red round short soft strong tall warm white young".split()
)
COLOURS = "black blue brown green grey orange pink red white yellow".split()
CITIES = "Athens Berlin Bonn Cairo Delhi Lima London Madrid Milan Oslo Paris Prague Rome Sofia Tokyo Vienna".split()
PLACES = "bridge garden hill house market park river school station tree".split()
