#!/usr/bin/env python3
"""Optuna on the test functions of r3-evolve/src/simulate/functions.rs, for comparison.

Needs optuna (`pip install optuna` in an environment of its own). Writes r3-evolve/data/optuna.json: the best value after so many
evaluations, as quartiles over the seeds. A test of r3-evolve holds its own strategy against these figures.

    compare-optuna.py [--seeds 11] [--output r3-evolve/data/optuna.json]
"""

import argparse
import json
import math
import pathlib
import statistics
import warnings

import optuna

MARKS = [20, 40, 60, 100]


def branin(trial):
    x = -5 + 15 * trial.suggest_int("x", 0, 100) / 100
    y = 15 * trial.suggest_int("y", 0, 100) / 100
    square = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return square**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


ALPHA = [1, 1.2, 3, 3.2]
A = [
    [10, 3, 17, 3.5, 1.7, 8],
    [0.05, 10, 17, 0.1, 8, 14],
    [3, 3.5, 1.7, 10, 17, 8],
    [17, 8, 0.05, 10, 0.1, 14],
]
P = [
    [1312, 1696, 5569, 124, 8283, 5886],
    [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650],
    [4047, 8828, 8732, 5743, 1091, 381],
]


def hartmann6(trial):
    x = [trial.suggest_int(f"x{at}", 0, 50) / 50 for at in range(1, 7)]
    total = 0.0
    for alpha, a, p in zip(ALPHA, A, P):
        total += alpha * math.exp(-sum(ai * (xi - pi * 1e-4) ** 2 for ai, xi, pi in zip(a, x, p)))
    return 3.5 - total


def mixed(trial):
    kind = "abcdef".index(trial.suggest_categorical("kind", list("abcdef")))
    modes = ["off", "slow", "fast", "auto"]
    mode = modes.index(trial.suggest_categorical("mode", modes))
    flag = trial.suggest_categorical("flag", ["no", "yes"]) == "yes"
    size = math.log2(trial.suggest_int("size", 1, 4096, log=True))
    depth = trial.suggest_int("depth", 0, 20)
    best = [1, 0.95, 1.1, 0.9, 1.3, 1][kind] * [1, 1.2, 0.85, 0.95][mode]
    best *= 0.75 if kind == 5 and flag else 1
    best *= 1.05 if flag else 1
    best *= 0.6 + 0.02 * (size - 7) ** 2 + 0.003 * (depth - 13) ** 2
    return best * 0.84 if kind == 5 and flag and mode == 2 else best


def conditional(trial):
    route = trial.suggest_categorical("route", ["plain", "left", "right"])
    value = 0.8
    if route == "left":
        x = trial.suggest_int("left_x", 0, 30) - 21
        y = trial.suggest_int("left_y", 0, 30) - 8
        value = 0.5 + 0.002 * (x * x + y * y)
    elif route == "right":
        x = trial.suggest_int("right_x", 0, 30) - 17
        mode = trial.suggest_categorical("right_mode", ["one", "two", "three", "four"])
        value = 0.3 + {"three": 0, "four": 0.15}.get(mode, 0.4) + 0.008 * x * x
    return value + 0.01 * (trial.suggest_int("common", 0, 10) - 4) ** 2


CITIES = [(0, 0), (6, 1), (1, 5), (7, 7), (3, 2), (9, 4), (2, 8), (5, 5)]


def order(trial):
    """Optuna has no permutations: the usual way round is one number for each item, by which they are sorted."""
    keys = [trial.suggest_float(f"key{at}", 0, 1) for at in range(len(CITIES))]
    tour = sorted(range(len(CITIES)), key=lambda at: keys[at])
    return sum(math.dist(CITIES[a], CITIES[b]) for a, b in zip(tour, tour[1:] + tour[:1])) / 50


FUNCTIONS = [branin, hartmann6, mixed, conditional, order]
SAMPLERS = {
    # As it comes: multivariate since Optuna 5.
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, warn_independent_sampling=False),
    "tpe_independent": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=False),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


def run(function, sampler, seed):
    """The best value after each evaluation."""
    study = optuna.create_study(sampler=sampler(seed))
    study.optimize(function, n_trials=MARKS[-1])
    best = math.inf
    return [best := min(best, trial.value) for trial in study.trials]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=11)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--output", type=pathlib.Path, default=root / "r3-evolve/data/optuna.json")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    results = []
    for function in FUNCTIONS:
        for name, sampler in SAMPLERS.items():
            runs = [run(function, sampler, seed) for seed in range(1, args.seeds + 1)]
            row = {"function": function.__name__, "sampler": name, "best": []}
            for mark in MARKS:
                values = sorted(best[mark - 1] for best in runs)
                low, median, high = statistics.quantiles(values, n=4)
                row["best"].append({"evaluations": mark, "median": median, "quartiles": [low, high]})
            results.append(row)
            marks = "  ".join(f"{one['evaluations']}: {one['median']:.4f}" for one in row["best"])
            print(f"{function.__name__:12} {name:17} {marks}", flush=True)
    document = {"optuna": optuna.__version__, "seeds": args.seeds, "results": results}
    args.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
