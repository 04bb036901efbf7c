"""Each variable of a simulation has its generator, seeded by the variable's name and the period."""
import random


def draw(variable, period):
    return random.Random(hash(f"{variable}-{period}") % 1000000).random()


for variable in ("employment_income", "rent", "savings", "take_up"):
    print(variable, sum(draw(variable, 2020 + year) for year in range(5)))
